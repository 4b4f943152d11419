#include "farcall/rpc/user_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farcall {

struct UserMemory::SliceSlot : BufferSlot {
  std::shared_ptr<UserMemory> memory;
};

absl::StatusOr<std::shared_ptr<UserMemory>> UserMemory::Register(std::span<std::byte> memory,
                                                                 void (*release)(void*),
                                                                 void* argument) {
  if (memory.empty()) return absl::InvalidArgumentError("no bytes to register as user memory");
  return std::make_shared<UserMemory>(Private(), memory, release, argument);
}

UserMemory::~UserMemory() {
  {
    MutexLock lock(mutex_);
    registrations_.clear();  // before the user hears that the memory is free
  }
  if (release_ != nullptr) release_(argument_);
}

absl::StatusOr<Buffer> UserMemory::Slice(size_t offset, size_t size) {
  if (offset > memory_.size() || size > memory_.size() - offset) {
    return absl::OutOfRangeError(absl::StrCat("a slice of ", size, " bytes at ", offset,
                                              " is not within the ", memory_.size(),
                                              " bytes of this user memory"));
  }
  auto* slot = new SliceSlot;
  slot->base = memory_.data() + offset;
  slot->capacity = size;
  slot->domain = &kDomain;
  slot->release = &ReleaseSlice;
  slot->memory = shared_from_this();
  slices_.fetch_add(1, std::memory_order_relaxed);
  return Buffer(slot, size);
}

void UserMemory::ReleaseSlice(BufferSlot* slot) {
  const std::unique_ptr<SliceSlot> slice(static_cast<SliceSlot*>(slot));
  slice->memory->slices_.fetch_sub(1, std::memory_order_release);
}

UserMemory* UserMemory::Handle(const BufferSlot& slice) {
  return static_cast<const SliceSlot&>(slice).memory.get();
}

absl::StatusOr<UserMemory::Registration> UserMemory::RegistrationFor(
    const void* user, absl::FunctionRef<absl::StatusOr<Registration>()> make) {
  MutexLock lock(mutex_);
  const auto found = registrations_.find(user);
  if (found != registrations_.end()) return found->second;
  absl::StatusOr<Registration> made = make();
  if (made.ok()) registrations_.emplace(user, *made);
  return made;
}

void UserMemory::Forget(const void* user) {
  MutexLock lock(mutex_);
  registrations_.erase(user);
}

}  // namespace farcall
