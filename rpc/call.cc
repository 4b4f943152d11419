#include "farcall/rpc/call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/builder.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/channel.h"
#include "farcall/rpc/channel_core.h"

namespace farcall {
namespace {

// A deadline so far away that it never comes still has to fit a clock.
constexpr Duration kLongestTimeout = std::chrono::hours(24 * 365);

absl::Status Fill(PreparedCall& call, const Channel& channel, MessageBuilder& builder,
                  const CallOptions& options) {
  const Duration timeout =
      options.timeout == Duration(0) ? channel.options().default_timeout : options.timeout;
  call.started = channel.loop().clock().Now();
  call.deadline = After(call.started, std::min(timeout, kLongestTimeout));
  absl::StatusOr<Buffer> body = builder.Release();
  if (!body.ok()) return body.status();
  call.message.body = *std::move(body);
  call.message.attachment = builder.TakeAttachment();
  absl::Status made = MakeHead(options.metadata, *builder.pool(), call.message.head);
  call.request_bytes = call.message.head.size() + call.message.payload_bytes();
  return made;
}

}  // namespace

PreparedCall PrepareCall(const Channel& channel, const MethodInfo& method, MessageBuilder& builder,
                         const CallOptions& options) {
  PreparedCall call;
  call.method = &method;
  call.info = options.info;
  call.attachment_into = options.attachment_into;
  call.wait_for_ready = options.wait_for_ready;
  if (call.info != nullptr) {  // which may have told of another call before
    *call.info = CallInfo{.record_stages = call.info->record_stages};
    if (call.info->record_stages) call.info->stages.started = Clock::Steady().Now();
  }
  call.status = Fill(call, channel, builder, options);
  if (!call.status.ok()) call.status = WithOutcome(call.status, Outcome::kNotSent);
  return call;
}

void ClientCall::OnTimer() {
  channel_->End(*this, absl::DeadlineExceededError(absl::StrCat(
                           "the deadline of ", Absl(request_.method->name), " passed")));
}

}  // namespace farcall
