// Calls from stub to service and back, over loopback.

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>
#include <future>
#include <optional>
#include <utility>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/rpc/probe.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a blocking call returns the handler's reply") {
  Stage stage;
  Probe::Client client(stage.Dial());
  auto reply = client.Do(Asking(client, "hello", 42));
  REQUIRE(reply.ok());
  CHECK((*reply)->text()->str() == "hello");
  CHECK((*reply)->number() == 42);
}

TEST_CASE("the object API serves both sides") {
  Stage stage;
  Probe::Client client(stage.Dial());
  AskT ask;
  ask.action = "object";
  ask.number = 1;
  auto reply = client.Object(ask);
  REQUIRE(reply.ok());
  CHECK((*reply)->text()->str() == "object");
  CHECK((*reply)->number() == 2);
}

TEST_CASE("payloads of every size come back whole") {
  Stage stage;
  Probe::Client client(stage.Dial());
  for (size_t bytes : {0, 1, 63, 64, 65, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20}) {
    auto reply = client.Do(Asking(client, "", 0, bytes));
    REQUIRE(reply.ok());
    REQUIRE((*reply)->data()->size() == bytes);
    for (const uint8_t byte : *(*reply)->data()) REQUIRE(byte == 3);
  }
}

TEST_CASE("an attachment travels beside the message and back without a copy") {
  Stage stage;
  Channel channel = stage.Dial();
  Probe::Client client(channel);
  Builder<Ask> request = Asking(client, "attached");
  auto attachment = request.AllocateAttachment(100'000);
  REQUIRE(attachment.ok());
  std::fill(attachment->data(), attachment->data() + attachment->size(), std::byte{9});
  const std::byte* place = attachment->data();
  request.Attach(*std::move(attachment));
  auto reply = client.Do(std::move(request));
  REQUIRE(reply.ok());
  REQUIRE(reply->attachment().size() == 100'000);
  CHECK(reply->attachment().data() == place);
  CHECK(reply->attachment().data()[99'999] == std::byte{9});
}

TEST_CASE("a handler's status arrives whole: code, message, payloads, metadata") {
  Stage stage;
  Probe::Client client(stage.Dial());
  CallInfo info;
  auto reply = client.Do(Asking(client, "fail"), {.info = &info});
  CHECK(reply.status().code() == absl::StatusCode::kNotFound);
  CHECK(reply.status().message() == "no such thing: \xff\x01");
  const auto payload = reply.status().GetPayload("test/why");
  REQUIRE(payload.has_value());
  CHECK(std::string(*payload) == std::string("bin\0ary", 7));
  CHECK(OutcomeOf(reply.status()) == Outcome::kAnswered);
  CHECK(info.outcome == Outcome::kAnswered);
  CHECK(info.reply_metadata.Find("on-error") == "yes");
}

TEST_CASE("metadata goes both ways, any bytes, order and repeats kept") {
  Stage stage;
  Probe::Client client(stage.Dial());
  CallInfo info;
  const std::string odd("a\0b\r\n\xff", 6);
  auto reply =
      client.Do(Asking(client, "metadata"),
                {.metadata = {{"k", "1"}, {odd, odd}, {"k", ""}, {"big", std::string(3000, 'x')}},
                 .info = &info});
  REQUIRE(reply.ok());
  REQUIRE(info.reply_metadata.size() == 4);
  auto entry = info.reply_metadata.begin();
  CHECK(*entry++ == std::pair<std::string, std::string>("k", "1!"));
  CHECK(*entry++ == std::pair<std::string, std::string>(odd, odd + "!"));
  CHECK(*entry++ == std::pair<std::string, std::string>("k", "!"));
  CHECK(entry->second.size() == 3001);
}

TEST_CASE("metadata beyond the head's limit is refused before it is sent") {
  Stage stage;
  Probe::Client client(stage.Dial());
  for (const Metadata& metadata : {Metadata{{"k", std::string(5000, 'x')}}, Metadata{{"", "x"}},
                                   Metadata{{std::string(256, 'k'), "x"}}}) {
    auto reply = client.Do(Asking(client, ""), {.metadata = metadata});
    CHECK_FALSE(reply.ok());
    CHECK(OutcomeOf(reply.status()) == Outcome::kNotSent);
    CHECK(std::string(reply.status().message()).find("frame: ") == std::string::npos);
  }
  CHECK(stage.probe.ran == 0);
}

TEST_CASE("a handler that throws is INTERNAL for its call alone") {
  Stage stage;
  Probe::Client client(stage.Dial());
  auto thrown = client.Do(Asking(client, "throw"));
  CHECK(thrown.status().code() == absl::StatusCode::kInternal);
  CHECK(std::string(thrown.status().message()).find("thrown by the test") != std::string::npos);
  CHECK(client.Do(Asking(client, "throw_int")).status().code() == absl::StatusCode::kInternal);
  auto silent = client.Do(Asking(client, "no_reply"));
  CHECK(silent.status().code() == absl::StatusCode::kInternal);
  CHECK(std::string(silent.status().message()).find("without a reply") != std::string::npos);
  CHECK(client.Do(Asking(client, "still here")).ok());
}

TEST_CASE("a handler that finds no memory is RESOURCE_EXHAUSTED for its call alone") {
  Stage stage;
  std::atomic<bool> scarce{true};
  stage.probe.on_do = [&] {
    if (scarce) throw std::bad_alloc();
  };
  Probe::Client client(stage.Dial());
  const auto failed = client.Do(Asking(client, ""));
  CHECK(failed.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(OutcomeOf(failed.status()) == Outcome::kAnswered);
  scarce = false;
  CHECK(client.Do(Asking(client, "")).ok());
}

TEST_CASE("the handler sees what is left of the deadline") {
  Stage stage;
  Probe::Client client(stage.Dial());
  auto reply = client.Do(Asking(client, "deadline"), {.timeout = seconds(7)});
  REQUIRE(reply.ok());
  const int left = std::stoi((*reply)->text()->str());
  CHECK(left > 4000);
  CHECK(left <= 7000);
}

TEST_CASE("the handler sees who calls") {
  Stage stage;
  Probe::Client client(stage.Dial({.authentication = "s3cret"}));
  auto reply = client.Do(Asking(client, "peer"));
  REQUIRE(reply.ok());
  CHECK((*reply)->text()->str() == "loopback|s3cret");
}

TEST_CASE("a deadline ends the call and cancels the handler") {
  Stage stage;
  Probe::Client client(stage.Dial());
  const TimePoint start = Clock::Steady().Now();
  auto reply = client.Wait(Asking(client, "", 60'000), {.timeout = milliseconds(50)});
  const Duration took = Clock::Steady().Now() - start;
  CHECK(reply.status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(OutcomeOf(reply.status()) == Outcome::kUnknown);
  CHECK(took >= milliseconds(50));
  CHECK(took < seconds(5));
  CHECK(Eventually([&] { return stage.probe.cancelled == 1; }));
  CHECK(Eventually([&] { return stage.server->stats().calls_running == 0; }));
}

TEST_CASE("a cancellation slot ends the call and cancels the handler") {
  Stage stage;
  Probe::Client client(stage.Dial());
  asio::cancellation_signal signal;
  std::promise<absl::Status> ended;
  client.AsyncWait(
      Asking(client, "", 60'000), {},
      asio::bind_cancellation_slot(signal.slot(), [&](const absl::StatusOr<Msg<Answer>>& reply) {
        ended.set_value(reply.status());
      }));
  REQUIRE(Eventually([&] { return stage.probe.ran == 1; }));
  signal.emit(asio::cancellation_type::terminal);
  auto status = ended.get_future();
  REQUIRE(status.wait_for(seconds(10)) == std::future_status::ready);
  CHECK(status.get().code() == absl::StatusCode::kCancelled);
  CHECK(Eventually([&] { return stage.probe.cancelled == 1; }));
}

TEST_CASE("coroutines call with use_awaitable on the channel's loop") {
  Stage stage;
  Channel channel = stage.Dial();
  auto work = [](Channel to) -> asio::awaitable<uint64_t> {
    Probe::Client client(to);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 100; ++i) {
      AskT ask;
      ask.number = i;
      auto reply = co_await client.AsyncObject(ask, {}, asio::use_awaitable);
      if (reply.ok()) sum += (*reply)->number();
    }
    co_return sum;
  };
  auto sum = asio::co_spawn(channel.loop().executor(), work(channel), asio::use_future);
  REQUIRE(sum.wait_for(seconds(20)) == std::future_status::ready);
  CHECK(sum.get() == 5050);
}

TEST_CASE("handlers run on their own executor, whose context stays alive for them") {
  Stage stage;
  Probe::Client client(stage.Dial());
  asio::io_context mine;
  std::optional<std::thread::id> ran_on;
  client.AsyncDo(Asking(client, "x"), {},
                 asio::bind_executor(mine, [&](const absl::StatusOr<Msg<Answer>>& reply) {
                   CHECK(reply.ok());
                   ran_on = std::this_thread::get_id();
                 }));
  mine.run();  // returns only once the handler ran
  CHECK(ran_on == std::this_thread::get_id());
}

TEST_CASE("a blocking call in a callback of the same loop fails at once and says so") {
  Stage stage;
  Probe::Client client(stage.Dial());
  std::promise<absl::Status> inner;
  client.AsyncDo(Asking(client, "outer"), {}, [&](const absl::StatusOr<Msg<Answer>>& /*reply*/) {
    inner.set_value(client.Do(Asking(client, "inner")).status());
  });
  auto status = inner.get_future();
  REQUIRE(status.wait_for(seconds(10)) == std::future_status::ready);
  const absl::Status refused = status.get();
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(OutcomeOf(refused) == Outcome::kNotSent);
  CHECK(client.Do(Asking(client, "after")).ok());
}

TEST_CASE("an inline handler that calls its own server and waits is told what holds it up") {
  Stage stage;
  Channel own = stage.Dial();
  Probe::Client inner(own);
  REQUIRE(inner.Do(Asking(inner, "connected")).ok());
  std::promise<absl::Status> told;
  bool called = false;  // handlers of one loop
  stage.probe.on_do = [&] {
    if (std::exchange(called, true)) return;
    told.set_value(inner.Do(Asking(inner, "inner"), {.timeout = milliseconds(50)}).status());
  };
  Probe::Client client(stage.Dial());
  CHECK(client.Do(Asking(client, "outer")).ok());
  const absl::Status late = told.get_future().get();
  CHECK(late.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK_THAT(std::string(late.message()), Catch::Contains("ServiceOptions::blocking"));
  CHECK(OutcomeOf(late) != Outcome::kAnswered);
  // Elsewhere a late answer is just late.
  const absl::Status plain =
      client.Wait(Asking(client, "", 60'000), {.timeout = milliseconds(20)}).status();
  CHECK_THAT(std::string(plain.message()), !Catch::Contains("ServiceOptions"));
}

TEST_CASE("an unfinished request is refused, not sent") {
  Stage stage;
  Probe::Client client(stage.Dial());
  auto reply = client.Do(client.NewDo());
  CHECK(reply.status().code() == absl::StatusCode::kFailedPrecondition);
  std::promise<absl::Status> ended;
  client.AsyncDo(client.NewDo(), {},
                 [&](const absl::StatusOr<Msg<Answer>>& late) { ended.set_value(late.status()); });
  CHECK(ended.get_future().get().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("streaming methods say UNIMPLEMENTED") {
  Stage stage;
  Probe::Client client(stage.Dial());
  CHECK(client.Watch().code() == absl::StatusCode::kUnimplemented);
}

TEST_CASE("blocking services run on workers while the loop goes on") {
  Stage stage;
  Channel channel = stage.Dial();
  Probe::Client probe(channel);
  Blocker::Client blocker(channel);
  AskT ask;
  auto blocked = blocker.AsyncBlock(ask, {}, asio::use_future);
  REQUIRE(Eventually([&] { return stage.blocker.ran == 1; }));
  CHECK(probe.Do(Asking(probe, "meanwhile")).ok());
  stage.blocker.let_go = true;
  REQUIRE(blocked.wait_for(seconds(10)) == std::future_status::ready);
  auto reply = blocked.get();
  REQUIRE(reply.ok());
  CHECK((*reply)->text()->str() == "let go");
}

TEST_CASE("more calls than workers and their queue hold are refused") {
  Stage stage({.workers = 1, .max_waiting_for_workers = 1});
  Channel channel = stage.Dial();
  Blocker::Client blocker(channel);
  AskT ask;
  auto first = blocker.AsyncBlock(ask, {}, asio::use_future);
  REQUIRE(Eventually([&] { return stage.blocker.ran == 1; }));
  auto second = blocker.AsyncBlock(ask, {}, asio::use_future);
  auto third = blocker.AsyncBlock(ask, {}, asio::use_future);
  REQUIRE(third.wait_for(seconds(10)) == std::future_status::ready);
  const absl::Status full = third.get().status();
  CHECK(full.code() == absl::StatusCode::kResourceExhausted);
  CHECK(OutcomeOf(full) == Outcome::kNotRun);
  CHECK(stage.server->stats().calls_started == 2);
  stage.blocker.let_go = true;
  CHECK(first.get().ok());
  CHECK(second.get().ok());
}

TEST_CASE("stages are recorded when asked for") {
  Stage stage;
  Probe::Client client(stage.Dial());
  CallInfo info;
  info.record_stages = true;
  REQUIRE(client.Do(Asking(client, "x"), {.info = &info}).ok());
  CHECK(info.stages.started <= info.stages.handed);
  CHECK(info.stages.handed <= info.stages.answered);
  CHECK(info.stages.left != TimePoint());
  CHECK(info.stages.started != TimePoint());
}

}  // namespace
}  // namespace farcall::testing
