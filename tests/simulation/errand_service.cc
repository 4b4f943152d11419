#include "farcall/tests/simulation/errand_service.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace farcall::simulation {

absl::Status ErrandService::Run(Context& context, const Errand& errand, Reply<Report>& reply) {
  ledger_.Entered(errand, context.attachment(), context, server_);
  context.AddReplyMetadata("number", std::to_string(errand.number()));
  absl::Status status;
  switch (errand.conduct()) {
    case Conduct::Fail:
      status = absl::NotFoundError("as the plan says");
      break;
    case Conduct::Throw:
    case Conduct::Forget:
      status = absl::InternalError("");  // what the caller is told then
      break;
    default:
      status = Answer(errand, reply);
  }
  ledger_.Left(errand.number(), context.peer().address, status);
  history_.Add(Did::kReturn, errand.number(), static_cast<uint64_t>(status.code()));
  if (errand.conduct() == Conduct::Throw) throw std::runtime_error("as the plan says");
  if (errand.conduct() == Conduct::Forget) return absl::OkStatus();
  return status;
}

asio::awaitable<absl::Status> ErrandService::Stay(Context& context, Msg<Errand> errand,
                                                  Reply<Report>& reply) {
  // The context's peer goes with the call; this handler may outlast the connection.
  const std::string peer = context.peer().address;
  ledger_.Entered(*errand, errand.attachment(), context, server_);
  context.AddReplyMetadata("number", std::to_string(errand->number()));
  if (errand->conduct() == Conduct::WaitStubbornly) {
    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  }
  asio::steady_timer until(co_await asio::this_coro::executor,
                           asio::steady_timer::time_point::max());
  Waiting self{errand->number(), until};
  if (!closed_) {
    waiting_.push_back(&self);
    boost::system::error_code cancelled;
    co_await until.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    std::erase(waiting_, &self);
  }
  absl::Status status =
      self.let_go || closed_ ? Answer(*errand, reply) : absl::CancelledError("the caller gave up");
  ledger_.Left(errand->number(), peer, status);
  co_return status;
}

absl::Status ErrandService::Answer(const Errand& errand, Reply<Report>& reply) {
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data_at;
  if (errand.report_bytes() > 0) {
    uint8_t* data = nullptr;
    data_at = reply.CreateUninitializedVector(errand.report_bytes(), &data);
    std::memset(data, Pattern(errand.number()), errand.report_bytes());
  }
  if (errand.report_attachment_bytes() > 0) {
    absl::StatusOr<Buffer> attachment = reply.AllocateAttachment(errand.report_attachment_bytes());
    if (!attachment.ok()) return attachment.status();
    std::memset(attachment->data(), Pattern(errand.number()), attachment->size());
    reply.Attach(*std::move(attachment));
  }
  reply.Finish(CreateReport(reply, errand.number(), data_at));
  return absl::OkStatus();
}

void ErrandService::LetGo(size_t index) {
  Waiting& one = *waiting_[index];
  if (std::exchange(one.let_go, true)) return;
  history_.Add(Did::kLetGo, one.number);
  one.until.cancel();
}

void ErrandService::Close() {
  closed_ = true;
  for (size_t i = 0; i < waiting_.size(); ++i) LetGo(i);
}

}  // namespace farcall::simulation
