// Msg<T>: a received FlatBuffer, verified, read in place, and kept alive with everything that came
// with it.

#ifndef FARCALL_RPC_MSG_H_
#define FARCALL_RPC_MSG_H_

#include <flatbuffers/flatbuffers.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "farcall/rpc/limits.h"
#include "farcall/rpc/message.h"
#include "farcall/rpc/metadata.h"

namespace farcall {

// Checks that `body` is a well-formed FlatBuffer with root T before anything in it is read.
// INVALID_ARGUMENT.
template <class T>
absl::Status VerifyBody(const Buffer& body, const MessageLimits& limits) {
  if (reinterpret_cast<uintptr_t>(body.data()) % kBufferAlignment != 0) {
    // The verifier checks offsets only; a misaligned base would make every aligned read undefined.
    return absl::InternalError("a received body is not aligned: a bug of the transport");
  }
  if (body.size() > kFlatBuffersMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a body of ", body.size(),
                                                   " bytes: a FlatBuffer has at most ",
                                                   kFlatBuffersMaxBytes, ", short of 2 GiB"));
  }
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(body.data()), body.size(),
                                 limits.max_table_depth, limits.max_tables);
  if (body.empty() || !verifier.VerifyBuffer<T>(nullptr)) {
    return absl::InvalidArgumentError("the body is not a well-formed FlatBuffer of this type");
  }
  return absl::OkStatus();
}

// Move-only. Reading is thread-safe; the memory goes back to its pool when the Msg is destroyed, on
// any thread.
template <class T>
class Msg {
 public:
  // Takes a message whose body VerifyBody<T> accepted.
  explicit Msg(Message&& message)
      : message_(std::move(message)), root_(flatbuffers::GetRoot<T>(message_.body.data())) {}

  const T& operator*() const { return *root_; }
  const T* operator->() const { return root_; }
  const T* get() const { return root_; }

  // The raw attachment; empty when there is none.
  const Buffer& attachment() const { return message_.attachment; }
  Buffer TakeAttachment() { return std::move(message_.attachment); }
  // What the sender added, valid as long as this Msg.
  MetadataView metadata() const { return MetadataView(message_.head.bytes()); }
  // The FlatBuffer's bytes.
  std::span<const std::byte> bytes() const { return message_.body.bytes(); }

 private:
  Message message_;
  const T* root_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_MSG_H_
