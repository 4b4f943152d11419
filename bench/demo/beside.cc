#include "farcall/bench/demo/beside.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <chrono>
#include <utility>

#include "farcall/rpc/event_loop.h"
#include "farcall/transports/dial.h"

namespace farcall::bench {
namespace {

constexpr std::chrono::seconds kPatience(30);

}  // namespace

PayloadsBeside::PayloadsBeside(const Channel& channel, size_t bytes)
    : echo_(channel), loop_(channel.loop()), payload_(bytes, std::byte{1}) {
  loop_.Post([this] { Next(); });
  first_over_.get_future().get();
}

PayloadsBeside::~PayloadsBeside() { Stop().IgnoreError(); }

absl::Status PayloadsBeside::Stop() {
  if (std::exchange(stopped_, true)) return failed_;
  loop_.Post([this] {
    stopping_ = true;
    if (under_way_) {
      cancel_.emit(boost::asio::cancellation_type::terminal);
    } else {
      over_.set_value();
    }
  });
  over_.get_future().get();  // a call ends at its deadline at the latest
  return failed_;
}

void PayloadsBeside::Next() {
  Builder<services::DiscardRequest> request = echo_.NewDiscard();
  request.Attach(WrapBytes(
      payload_, [](void*) {}, nullptr));
  request.Finish(services::CreateDiscardRequest(request));
  under_way_ = true;
  echo_.AsyncDiscard(std::move(request), {.timeout = kPatience},
                     boost::asio::bind_cancellation_slot(
                         cancel_.slot(), [this](absl::StatusOr<Msg<services::DiscardReply>> reply) {
                           Ended(reply.status());
                         }));
}

void PayloadsBeside::Ended(const absl::Status& status) {
  under_way_ = false;
  if (!std::exchange(warm_, true)) first_over_.set_value();
  if (!status.ok() && !stopping_) failed_ = status;
  if (stopping_) {
    over_.set_value();
  } else if (status.ok()) {
    Next();
  }
}

absl::StatusOr<std::vector<Channel>> OpenIdle(const std::string& address, int count,
                                              const std::shared_ptr<EventLoop>& loop) {
  std::vector<Channel> channels;
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<Channel> channel = Dial(address, {.loop = loop});
    if (!channel.ok()) return channel.status();
    services::Echo::Client echo(*channel);
    Builder<services::SayRequest> request = echo.NewSay();
    request.Finish(services::CreateSayRequest(request, request.CreateString("I am here")));
    const auto reply = echo.Say(std::move(request), {.timeout = kPatience, .wait_for_ready = true});
    if (!reply.ok()) return reply.status();
    channels.push_back(*std::move(channel));
  }
  return channels;
}

}  // namespace farcall::bench
