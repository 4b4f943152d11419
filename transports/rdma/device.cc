#include "farcall/transports/rdma/device.h"

namespace farcall::rdma {

std::string_view ToString(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSend:
      return "SEND";
    case Opcode::kRead:
      return "READ";
    case Opcode::kBind:
      return "BIND";
    case Opcode::kLocalInvalidate:
      return "LOCAL_INV";
    case Opcode::kReceive:
      return "RECV";
  }
  return "unknown operation";
}

std::string_view ToString(CompletionStatus status) {
  switch (status) {
    case CompletionStatus::kSuccess:
      return "success";
    case CompletionStatus::kLocalLengthError:
      return "local length error";
    case CompletionStatus::kLocalQueuePairError:
      return "local queue pair operation error";
    case CompletionStatus::kLocalProtectionError:
      return "local protection error";
    case CompletionStatus::kFlushed:
      return "work request flushed";
    case CompletionStatus::kBindError:
      return "memory window bind error";
    case CompletionStatus::kBadResponse:
      return "bad response";
    case CompletionStatus::kRemoteInvalidRequest:
      return "remote invalid request";
    case CompletionStatus::kRemoteAccessError:
      return "remote access error";
    case CompletionStatus::kRemoteOperationError:
      return "remote operation error";
    case CompletionStatus::kRetryExceeded:
      return "transport retry counter exceeded";
    case CompletionStatus::kReceiverNotReady:
      return "receiver not ready: retry counter exceeded";
    case CompletionStatus::kFatal:
      return "fatal error of the device";
  }
  return "unknown status";
}

}  // namespace farcall::rdma
