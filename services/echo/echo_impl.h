// The Echo service of echo.fbs.

#ifndef FARCALL_SERVICES_ECHO_ECHO_IMPL_H_
#define FARCALL_SERVICES_ECHO_ECHO_IMPL_H_

#include "absl/status/status.h"
#include "echo.rpc.h"

namespace farcall::services {

// Thread-safe: it has no state.
class EchoImpl {
 public:
  static constexpr size_t kMaxReplyAttachment = size_t{64} << 20;

  absl::Status Say(Context& context, const SayRequest& request, Reply<SayReply>& reply);
  absl::Status Bytes(Context& context, const BytesRequest& request, Reply<BytesReply>& reply);
  absl::Status Discard(Context& context, const DiscardRequest& request, Reply<DiscardReply>& reply);
};

}  // namespace farcall::services

#endif  // FARCALL_SERVICES_ECHO_ECHO_IMPL_H_
