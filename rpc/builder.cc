#include "farcall/rpc/builder.h"

#include <algorithm>
#include <bit>
#include <new>

namespace farcall {
namespace {

// The smallest slot: most requests and replies of a microservice fit, and it is one page's eighth.
constexpr size_t kSmallestMessage = 512;

// Rounded to what the pool hands out, so that the builder uses the whole slot before it grows.
size_t SlotFor(size_t bytes_hint) {
  return std::bit_ceil(std::clamp(bytes_hint, kSmallestMessage, size_t{1} << 30));
}

BufferSlot* HeapSlot(size_t bytes) {
  auto* base = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kBufferAlignment}));
  return new BufferSlot{.base = base, .capacity = bytes, .release = [](BufferSlot* slot) {
                          ::operator delete (slot->base, std::align_val_t{kBufferAlignment});
                          delete slot;
                        }};
}

}  // namespace

uint8_t* BuilderMemory::allocate(size_t bytes) {
  absl::StatusOr<Buffer> lease = pool_->Allocate(bytes);
  if (!lease.ok()) {
    status_ = lease.status();
    lease = Buffer(HeapSlot(bytes), bytes);
  }
  Buffer& place = current_ ? larger_ : current_;
  place = *std::move(lease);
  return reinterpret_cast<uint8_t*>(place.data());
}

void BuilderMemory::deallocate(uint8_t* memory, size_t /*bytes*/) { Take(memory).Reset(); }

Buffer BuilderMemory::Take(const uint8_t* memory) {
  const bool is_larger = larger_ && reinterpret_cast<const uint8_t*>(larger_.data()) == memory;
  Buffer taken = std::move(is_larger ? larger_ : current_);
  if (!current_) current_ = std::move(larger_);
  return taken;
}

MessageBuilder::MessageBuilder(std::shared_ptr<BufferPool> pool, size_t bytes_hint)
    : BuilderMemory(std::move(pool)),
      flatbuffers::FlatBufferBuilder(SlotFor(bytes_hint), static_cast<BuilderMemory*>(this),
                                     /*own_allocator=*/false, kBufferAlignment) {}

MessageBuilder::MessageBuilder(MessageBuilder&& other) noexcept
    : BuilderMemory(std::move(static_cast<BuilderMemory&>(other))),
      flatbuffers::FlatBufferBuilder(
          std::move(static_cast<flatbuffers::FlatBufferBuilder&>(other))),
      attachment_(std::move(other.attachment_)),
      finished_flag_(std::exchange(other.finished_flag_, false)) {
  AdoptMovedParts();
}

// FlatBufferBuilder's move takes the bytes, but also two addresses of what lived in the other
// builder: its allocator, and the bytes through which shared strings are compared.
void MessageBuilder::AdoptMovedParts() {
  flatbuffers::vector_downward carrier(0, static_cast<BuilderMemory*>(this), false, 1);
  buf_.swap_allocator(carrier);
  if (string_pool == nullptr) return;
  const std::unique_ptr<StringOffsetMap> others(string_pool);
  string_pool = new StringOffsetMap(StringOffsetCompare(buf_));
  for (const auto shared : *others) string_pool->insert(string_pool->end(), shared);
}

absl::StatusOr<Buffer> MessageBuilder::Release() {
  if (!finished()) {
    return absl::FailedPreconditionError("the message was not finished: call Finish(root) first");
  }
  if (!status().ok()) return status();
  size_t capacity = 0;
  size_t offset = 0;
  const uint8_t* memory = ReleaseRaw(capacity, offset);
  finished_flag_ = false;
  Buffer body = Take(memory);
  body.SetView(offset, capacity - offset);
  return body;
}

}  // namespace farcall
