// The simulated clients: channels and the calls on them.

#include <boost/asio/bind_cancellation_slot.hpp>
#include <cstring>
#include <utility>

#include "farcall/tests/simulation/simulation.h"

namespace farcall::simulation {

using std::chrono::microseconds;
using std::chrono::milliseconds;

void Simulation::Open(size_t client) {
  ChannelOptions options = plan_.channel;
  options.loop = loops_[clients_[client].loop];
  history_.Add(Did::kOpen, client);
  Channel& channel = clients_[client].channel.emplace(client_transport_,
                                                      *ParseEndpoint("loopback://server"), options);
  unconnected_pool_ = channel.pool();
  cores_.push_back(channel.core().weak_from_this());
}

void Simulation::CloseClient(size_t client) {
  history_.Add(Did::kClose, client);
  ledger_.Close(client);
  clients_[client].channel.reset();
}

// Mostly small, and all sizes about where the wire changes its ways.
uint32_t Simulation::SomeBytes() {
  if (dice_.Throw(100) >= plan_.large_calls) {
    return static_cast<uint32_t>(dice_.Throw(4) == 0 ? 0 : dice_.Throw(500));
  }
  switch (dice_.Throw(3)) {
    case 0:
      return static_cast<uint32_t>(10'000 + dice_.Throw(50'000));
    case 1:
      return static_cast<uint32_t>((64 << 10) - 200 + dice_.Throw(400));
    default:
      return static_cast<uint32_t>(70'000 + dice_.Throw(600'000));
  }
}

Duration Simulation::SomeTimeout() {
  switch (dice_.Throw(12)) {
    case 0:
      return Duration(0);  // the channel's default
    case 1:
      return Duration(1);
    case 2:
      return -milliseconds(1);
    case 3:
    case 4:
      return milliseconds(100 + dice_.Throw(2000));
    default:
      return microseconds(100 + dice_.Throw(40'000));
  }
}

void Simulation::Throw(CallRecord& call) {
  constexpr Conduct kStaying[] = {Conduct::Wait, Conduct::Wait, Conduct::WaitStubbornly};
  constexpr Conduct kQuick[] = {Conduct::Answer, Conduct::Answer, Conduct::Answer, Conduct::Answer,
                                Conduct::Fail,   Conduct::Throw,  Conduct::Forget};
  call.stays = dice_.Throw(2) == 0;
  call.conduct = call.stays ? kStaying[dice_.Throw(std::size(kStaying))]
                            : kQuick[dice_.Throw(std::size(kQuick))];
  call.data_bytes = SomeBytes();
  call.report_bytes = SomeBytes();
  if (dice_.Throw(4) == 0) call.attachment_bytes = SomeBytes();
  if (dice_.Throw(4) == 0) call.report_attachment_bytes = SomeBytes();
}

absl::StatusOr<Builder<Errand>> Simulation::Request(const CallRecord& call,
                                                    const Channel& channel) {
  Builder<Errand> request(channel.pool(), 0);
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data_at;
  if (call.data_bytes > 0) {
    uint8_t* data = nullptr;
    data_at = request.CreateUninitializedVector(call.data_bytes, &data);
    std::memset(data, Pattern(call.number), call.data_bytes);
  }
  if (call.attachment_bytes > 0) {
    absl::StatusOr<Buffer> attachment = request.AllocateAttachment(call.attachment_bytes);
    if (!attachment.ok()) return attachment.status();
    std::memset(attachment->data(), Pattern(call.number), attachment->size());
    request.Attach(*std::move(attachment));
  }
  request.Finish(CreateErrand(request, call.number, call.conduct, call.report_bytes,
                              call.report_attachment_bytes, call.attachment_bytes, data_at));
  return request;
}

void Simulation::StartCall(size_t client) {
  CallRecord& record = ledger_.NewCall();
  record.channel = client;
  record.loop = clients_[client].loop;
  Throw(record);
  const Duration timeout = SomeTimeout();
  record.deadline =
      clock_.Now() + (timeout == Duration(0) ? plan_.channel.default_timeout : timeout);
  history_.Add(Did::kStart, record.number, client, static_cast<uint64_t>(timeout.count() / 1000));
  auto call = std::make_shared<Call>(record);
  calls_.push_back(call);
  // The call holds its channel by itself: this copy of the handle must not outlive the step.
  Channel channel = *clients_[client].channel;
  absl::StatusOr<Builder<Errand>> request = Request(record, channel);
  if (!request.ok()) return ledger_.NotPrepared(record);
  CallOptions options{.timeout = timeout,
                      .wait_for_ready = dice_.Throw(2) == 0,
                      .metadata = {{"number", std::to_string(record.number)}},
                      .info = &call->info};
  if (dice_.Throw(8) == 0) options.metadata.Add("filler", std::string(dice_.Throw(3000), '\xff'));
  auto token = asio::bind_cancellation_slot(
      call->cancel.slot(),
      [this, call](const absl::StatusOr<Msg<Report>>& reply) { OnEnded(call, reply); });
  if (record.stays) {
    AsyncCall<Errands::StayMethod>(channel, *std::move(request), options, std::move(token));
  } else {
    AsyncCall<Errands::RunMethod>(channel, *std::move(request), options, std::move(token));
  }
}

void Simulation::CancelCall() {
  if (calls_.empty()) return;
  // The young ones: most of the old are over, and cancelling those must do nothing.
  const size_t back = dice_.Throw(std::min<size_t>(calls_.size(), 12));
  Call& call = *calls_[calls_.size() - 1 - back];
  history_.Add(Did::kCancel, call.record.number);
  call.record.cancelled = true;
  call.cancel.emit(asio::cancellation_type::terminal);
}

// In a callback: anything may be done from here.
void Simulation::OnEnded(const std::shared_ptr<Call>& call,
                         const absl::StatusOr<Msg<Report>>& reply) {
  ledger_.Ended(call->record, reply, call->info.reply_metadata);
  ledger_.Require(call->info.outcome == call->record.outcome,
                  "a call's CallInfo and its status tell different outcomes");
  const size_t client = call->record.channel;
  if (ending_ || !clients_[client].channel) return;
  switch (dice_.Throw(24)) {
    case 0:
    case 1:
      return StartCall(client);
    case 2:
      return CancelCall();
    case 3:
      if (dice_.Throw(4) == 0) CloseClient(client);
      return;
    default:
      return;
  }
}

}  // namespace farcall::simulation
