#include "farcall/rpc/buffer.h"

namespace farcall {
namespace {

struct WrappedSlot : BufferSlot {
  void (*user_release)(void*) = nullptr;
  void* argument = nullptr;
};

void ReleaseWrapped(BufferSlot* slot) {
  auto* wrapped = static_cast<WrappedSlot*>(slot);
  void (*const user_release)(void*) = wrapped->user_release;
  void* const argument = wrapped->argument;
  delete wrapped;
  if (user_release != nullptr) user_release(argument);
}

}  // namespace

Buffer WrapBytes(std::span<const std::byte> bytes, void (*release)(void*), void* argument) {
  auto* slot = new WrappedSlot;
  // Nobody writes through it: attachments that are sent are read only.
  slot->base = const_cast<std::byte*>(bytes.data());
  slot->capacity = bytes.size();
  slot->release = &ReleaseWrapped;
  slot->user_release = release;
  slot->argument = argument;
  return Buffer(slot, bytes.size());
}

}  // namespace farcall
