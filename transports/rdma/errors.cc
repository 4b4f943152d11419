#include "farcall/transports/rdma/errors.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"

namespace farcall::rdma {
namespace {

Opcode OpcodeOf(WorkKind kind) {
  switch (kind) {
    case WorkKind::kReceive:
      return Opcode::kReceive;
    case WorkKind::kSend:
      return Opcode::kSend;
    case WorkKind::kRead:
      return Opcode::kRead;
    case WorkKind::kBind:
      return Opcode::kBind;
    case WorkKind::kInvalidate:
      return Opcode::kLocalInvalidate;
  }
  return Opcode::kSend;
}

struct Meaning {
  absl::StatusCode code = absl::StatusCode::kInternal;
  std::string_view text;
};

Meaning MeaningOf(CompletionStatus status) {
  using enum CompletionStatus;
  switch (status) {
    case kRetryExceeded:
      return {absl::StatusCode::kUnavailable,
              "the peer's device does not answer: did its process or machine go, or the link?"};
    case kFlushed:
      return {absl::StatusCode::kUnavailable, "the queue pair ended before it was done"};
    case kReceiverNotReady:
      return {absl::StatusCode::kInternal,
              "the peer had no receive posted although it had given credit: one side's credits are "
              "wrong; do both run the same version?"};
    case kRemoteAccessError:
      return {absl::StatusCode::kInternal,
              "the peer's device refuses the key, the bounds or the access: it took its offer back "
              "too early, or offered what it does not have"};
    case kRemoteInvalidRequest:
      return {absl::StatusCode::kInternal,
              "the peer's receive is shorter than it said in the handshake"};
    case kRemoteOperationError:
      return {absl::StatusCode::kInternal, "the peer's device failed: look at its log"};
    case kLocalProtectionError:
    case kLocalLengthError:
    case kLocalQueuePairError:
      return {absl::StatusCode::kInternal, "this side's request was wrong: a bug of this library"};
    case kBindError:
      return {
          absl::StatusCode::kUnavailable,
          "this side's device refused it. Soft-RoCE does, in Linux 6.1, whenever it has to send "
          "again: a longer ack_timeout (VerbsOptions) or RdmaIsolation::kDomain avoids that. "
          "Of any other device it is a bug of this library"};
    case kBadResponse:
      return {absl::StatusCode::kInternal, "the peer's device broke the protocol of the wire"};
    case kFatal:
    case kSuccess:
      break;
  }
  return {absl::StatusCode::kInternal, "this side's device failed: look at the system's log"};
}

}  // namespace

absl::Status FailureOf(const Completion& completion, WorkKind kind) {
  const Meaning meaning = MeaningOf(completion.status);
  std::string text =
      absl::StrCat(Absl(ToString(OpcodeOf(kind))), " on queue pair ", completion.queue_pair,
                   " ended with '", Absl(ToString(completion.status)), "': ", Absl(meaning.text));
  if (completion.vendor_error != 0) {
    absl::StrAppend(&text, " (vendor error ", completion.vendor_error, ")");
  }
  return absl::Status(meaning.code, text);
}

}  // namespace farcall::rdma
