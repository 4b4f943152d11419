// The simulated clients: channels and the calls on them.

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <exception>
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

void Simulation::ChooseErrand(CallRecord& call) {
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

absl::StatusOr<Builder<Errand>> Simulation::Request(const CallRecord& call) {
  Builder<Errand> request(clients_[call.channel].channel->pool(), 0);
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

Simulation::Call& Simulation::NewCall(size_t client, Caller& caller) {
  CallRecord& record = ledger_.NewCall();
  record.channel = client;
  record.loop = clients_[client].loop;
  ChooseErrand(record);
  record.timeout = SomeTimeout();
  record.deadline = clock_.Now() + (record.timeout == Duration(0) ? plan_.channel.default_timeout
                                                                  : record.timeout);
  history_.Add(Did::kStart, record.number, client,
               static_cast<uint64_t>(record.timeout.count() / 1000));
  caller.call = &record;
  return calls_.emplace_back(Call{record, caller});
}

template <class Token>
auto Simulation::Send(Call& call, Builder<Errand>&& request, Token&& token) {
  CallOptions options{.timeout = call.record.timeout,
                      .wait_for_ready = dice_.Throw(2) == 0,
                      .metadata = {{"number", std::to_string(call.record.number)}},
                      .info = &call.info};
  if (dice_.Throw(8) == 0) options.metadata.Add("filler", std::string(dice_.Throw(3000), '\xff'));
  Channel& channel = *clients_[call.record.channel].channel;
  if (call.record.stays) {
    return AsyncCall<Errands::StayMethod>(channel, std::move(request), options,
                                          std::forward<Token>(token));
  }
  return AsyncCall<Errands::RunMethod>(channel, std::move(request), options,
                                       std::forward<Token>(token));
}

void Simulation::StartCall(size_t client) {
  Call& call = NewCall(client, callers_.emplace_back());
  absl::StatusOr<Builder<Errand>> request = Request(call.record);
  if (!request.ok()) return ledger_.NotPrepared(call.record);
  Send(call, *std::move(request),
       asio::bind_cancellation_slot(
           call.caller.cancel.slot(),
           [this, &call](const absl::StatusOr<Msg<Report>>& reply) { OnEnded(call, reply); }));
}

// Looks the channel up for each call and keeps no handle of it: it may be closed meanwhile.
asio::awaitable<void> Simulation::CallInTurn(size_t client, uint64_t calls, Caller& caller) {
  for (; calls > 0 && !caller.cancelled && !ending_ && clients_[client].channel; --calls) {
    Call& call = NewCall(client, caller);
    call.record.in_coroutine = true;
    absl::StatusOr<Builder<Errand>> request = Request(call.record);
    if (!request.ok()) {
      ledger_.NotPrepared(call.record);
      continue;
    }
    const absl::StatusOr<Msg<Report>> reply =
        co_await Send(call, *std::move(request), asio::use_awaitable);
    OnEnded(call, reply);
  }
}

void Simulation::StartCoroutine(size_t client) {
  const uint64_t calls = 1 + dice_.Throw(4);
  history_.Add(Did::kSpawn, client, calls);
  Caller& caller = callers_.emplace_back();
  asio::co_spawn(
      loops_[clients_[client].loop]->executor(), CallInTurn(client, calls, caller),
      asio::bind_cancellation_slot(caller.cancel.slot(), [this](const std::exception_ptr& thrown) {
        ledger_.Require(thrown == nullptr, "a coroutine that makes calls threw");
      }));
}

void Simulation::CancelCall() {
  if (calls_.empty()) return;
  // The young ones: most of the old are over, and cancelling those must do nothing.
  const size_t back = dice_.Throw(std::min<size_t>(calls_.size(), 12));
  Caller& caller = calls_[calls_.size() - 1 - back].caller;
  history_.Add(Did::kCancel, caller.call->number);
  caller.cancelled = caller.call->cancelled = true;
  caller.cancel.emit(asio::cancellation_type::terminal);
}

// In a callback or a coroutine: anything may be done from here.
void Simulation::OnEnded(const Call& call, const absl::StatusOr<Msg<Report>>& reply) {
  ledger_.Ended(call.record, reply, call.info.reply_metadata);
  ledger_.Require(call.info.outcome == call.record.outcome,
                  "a call's CallInfo and its status tell different outcomes");
  const size_t client = call.record.channel;
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
