// UserMemory: memory of the user's own that attachments are sent from and received into without a
// copy, on any transport. One handle for memory that is used again and again: an adapter learns of
// it once in each protection domain, not with each message. For memory that is sent once there is
// WrapBytes (rpc/buffer.h).
//
//   auto memory = UserMemory::Register(frame);
//   request.Attach(memory->Slice(0, bytes).value());            // sent from there
//   Buffer place = memory->Slice(bytes, rest).value();
//   client.Get(std::move(request), {.attachment_into = &place});  // the reply is read into there
//
// The first use in a protection domain has the adapter pin all of the memory, on the connection's
// loop: large memory has its first call early.
//
// Thread-safe: slices of one handle may be under way on connections of several loops. What two
// slices have in common is the user's to keep apart, and who may see it: a device without memory
// windows lets the peer that a slice was sent to read all of the handle while the connection lasts
// (RdmaIsolation). Register apart what not everybody may see.

#ifndef FARCALL_RPC_USER_MEMORY_H_
#define FARCALL_RPC_USER_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/buffer.h"
#include "farcall/rpc/mutex.h"

namespace farcall {

class UserMemory final : public std::enable_shared_from_this<UserMemory> {
  struct Private {};

 public:
  // A handle on `memory`, which must stay until `release` is called: once, on any thread, when the
  // handle has been dropped and no slice, transport or device has anything to do with it any more.
  // INVALID_ARGUMENT: no bytes.
  static absl::StatusOr<std::shared_ptr<UserMemory>> Register(
      std::span<std::byte> memory, void (*release)(void* argument) = nullptr,
      void* argument = nullptr);

  UserMemory(Private, std::span<std::byte> memory, void (*release)(void*), void* argument)
      : memory_(memory), release_(release), argument_(argument) {}
  ~UserMemory();
  UserMemory(const UserMemory&) = delete;
  UserMemory& operator=(const UserMemory&) = delete;

  std::span<std::byte> memory() const { return memory_; }

  // A lease on [offset, offset + size), which keeps the handle: to attach, and then the bytes stay
  // as they are until it is back; or to receive into, and then they are nobody's until then. Any
  // thread; one small allocation. OUT_OF_RANGE: not within the memory.
  absl::StatusOr<Buffer> Slice(size_t offset, size_t size);

  // Slices are out: with the user, in messages or with a transport. When this says false, whatever
  // was done to the bytes is seen by the thread that asked.
  bool in_use() const { return slices_.load(std::memory_order_acquire) != 0; }

  // ---- for transports ----

  // Whose slice `buffer` is; nullptr: memory of another kind. Valid as long as the buffer.
  static UserMemory* Of(const Buffer& buffer) {
    const BufferSlot* slot = buffer.slot();
    return slot != nullptr && slot->domain == &kDomain ? Handle(*slot) : nullptr;
  }

  // What `user`, a protection domain or the like, knows this memory by: made when it is first asked
  // for and kept until Forget(user) or the end of the handle, which destroy it on any thread. One
  // `make` at a time; others that want something of the handle wait for it. What `make` says when
  // it fails is passed on, and it is asked again the next time.
  using Registration = std::shared_ptr<const void>;
  absl::StatusOr<Registration> RegistrationFor(
      const void* user, absl::FunctionRef<absl::StatusOr<Registration>()> make);
  void Forget(const void* user);

 private:
  struct SliceSlot;
  // BufferSlot::domain of every slice: its address is what counts.
  static constexpr char kDomain = 0;

  static UserMemory* Handle(const BufferSlot& slice);
  static void ReleaseSlice(BufferSlot* slot);

  const std::span<std::byte> memory_;
  void (*const release_)(void*);
  void* const argument_;
  std::atomic<size_t> slices_{0};

  Mutex mutex_;
  absl::flat_hash_map<const void*, Registration> registrations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farcall

#endif  // FARCALL_RPC_USER_MEMORY_H_
