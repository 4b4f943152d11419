// Calls over the software NIC, both sides in this process: given up in the middle of transfers,
// beside handlers that block, on connections that come and go.

#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "farcall/rpc/outcome.h"
#include "farcall/rpc/server.h"
#include "farcall/services/echo/echo_impl.h"
#include "farcall/tests/faults/process.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/rpc/sanitized.h"
#include "farcall/transports/dial.h"

namespace farcall::faults {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;
using testing::Answer;
using testing::Ask;
using testing::Eventually;
using testing::kSanitized;
using testing::Probe;

constexpr size_t MiB = size_t{1} << 20;
constexpr size_t kHealthyBytes = 111;  // of calls that nobody disturbs

std::string NewName() {
  static int names = 0;
  return "shm://calls-" + std::to_string(::getpid()) + "-" + std::to_string(++names);
}

// The bytes of call `number`; those of two calls differ everywhere.
uint8_t ByteOf(uint64_t number, size_t at) {
  return static_cast<uint8_t>(number * 31 + at / 4096 + (at & 1));
}

bool IsOf(uint64_t number, const flatbuffers::Vector<uint8_t>* data) {
  if (data == nullptr) return false;
  for (flatbuffers::uoffset_t i = 0; i < data->size(); ++i) {
    if (data->Get(i) != ByteOf(number, i)) return false;
  }
  return true;
}

template <typename B>
auto BytesFor(B& builder, uint64_t number, size_t bytes) {
  uint8_t* to = nullptr;
  const auto vector = builder.CreateUninitializedVector(bytes, &to);
  for (size_t i = 0; i < bytes; ++i) to[i] = ByteOf(number, i);
  return vector;
}

// Says whether requests came with the bytes of another call, and answers with `number`'s own.
class CheckingImpl : public testing::ProbeImpl {
 public:
  absl::Status Do(Context& /*context*/, const Ask& request, Reply<Answer>& reply) {
    ++served;
    const bool healthy_caller = request.data()->size() == kHealthyBytes;
    if (!healthy_caller && !IsOf(request.number(), request.data())) ++wrong;
    const auto data = BytesFor(reply, request.number(), request.data()->size());
    reply.Finish(CreateAnswer(reply, 0, request.number(), data));
    return absl::OkStatus();
  }

  std::atomic<uint64_t> served{0}, wrong{0};
};

struct Service {
  explicit Service(const ShmOptions& options = {})
      : transport(MakeShmTransport(options)), server({.mode = ProgressMode::kEvent}) {
    REQUIRE(server.Add(Probe::Bind(probe)).ok());
    REQUIRE(server.Add(testing::Blocker::Bind(blocker, {.blocking = true})).ok());
    endpoint = server.Listen(transport, ParseEndpoint(NewName()).value()).value();
  }
  Channel Dial(std::shared_ptr<EventLoop> loop = {}) const {
    return {transport, endpoint, {.loop = std::move(loop), .mode = ProgressMode::kEvent}};
  }

  CheckingImpl probe;
  testing::BlockerImpl blocker;
  std::shared_ptr<Transport> transport;
  Server server;
  Endpoint endpoint;
};

Builder<Ask> Request(Probe::Client& client, uint64_t number, size_t bytes) {
  Builder<Ask> request = client.NewDo();
  const auto data = BytesFor(request, number, bytes);
  request.Finish(CreateAsk(request, 0, number, data));
  return request;
}

// How a call of GiveUpOften ended.
struct GivenUp {
  asio::cancellation_signal cancel;
  std::atomic<int> ends{0};
  absl::Status status;
  bool wrong = false;  // the bytes of another call
};

void Start(Probe::Client& client, GivenUp& call, uint64_t number, size_t bytes, Duration timeout,
           std::atomic<int>& under_way) {
  ++under_way;
  client.AsyncDo(Request(client, number, bytes), {.timeout = timeout},
                 asio::bind_cancellation_slot(
                     call.cancel.slot(),
                     [&call, &under_way, number](const absl::StatusOr<Msg<Answer>>& answer) {
                       call.status = answer.status();
                       call.wrong = answer.ok() && !IsOf(number, (*answer)->data());
                       ++call.ends;
                       --under_way;
                     }));
}

// The memory of both sides has room for a few payloads only: what a call leaves is another call's
// at once, and filled by it.
ShmOptions Tight() {
  ShmOptions options;
  options.rdma.chunk_bytes = 16 << 10;
  options.rdma.read_depth = 1;
  options.rdma.connection_pool_bytes = 16 * MiB;
  return options;
}

TEST_CASE("calls that are cancelled or late in the middle of READs: the true bytes or an error") {
  const hostile::LogLines log;
  Service service(Tight());
  const Channel channel = service.Dial();
  Probe::Client client(channel);
  const hostile::HealthyCaller healthy(service.endpoint, kHealthyBytes, {}, service.transport);
  const uint32_t seed = 20260711;
  INFO("seed=" << seed);
  std::minstd_rand random(seed);
  constexpr size_t kCalls = kSanitized ? 300 : 1500;
  std::vector<std::unique_ptr<GivenUp>> calls;
  std::atomic<int> under_way{0};
  for (size_t i = 0; i < kCalls; ++i) {
    REQUIRE(Eventually([&] { return under_way < 5; }, seconds(30)));
    calls.push_back(std::make_unique<GivenUp>());
    const size_t bytes = 20'000 + random() % (i % 3 == 0 ? 2 * MiB : 300'000);
    const bool by_deadline = random() % 2 == 0;
    Start(client, *calls.back(), i + 1, bytes,
          by_deadline ? Duration(microseconds(200 + random() % 4000)) : Duration(seconds(60)),
          under_way);
    std::this_thread::sleep_for(microseconds(random() % 600));
    const size_t some = calls.size() - 1 - random() % std::min<size_t>(calls.size(), 4);
    if (random() % 2 == 0) calls[some]->cancel.emit(asio::cancellation_type::terminal);
  }
  REQUIRE(Eventually([&] { return under_way == 0; }, seconds(70)));
  size_t ok = 0, cancelled = 0, late = 0, in_the_middle = 0, no_memory = 0;
  for (const auto& call : calls) {
    CHECK(call->ends == 1);
    CHECK_FALSE(call->wrong);
    INFO(call->status);
    ok += call->status.ok();
    cancelled += absl::IsCancelled(call->status);
    late += absl::IsDeadlineExceeded(call->status);
    no_memory += absl::IsResourceExhausted(call->status);
    in_the_middle += !call->status.ok() && OutcomeOf(call->status) == Outcome::kUnknown;
    const bool known = call->status.ok() || absl::IsCancelled(call->status) ||
                       absl::IsDeadlineExceeded(call->status) ||
                       absl::IsResourceExhausted(call->status);
    CHECK(known);
  }
  CAPTURE(ok, cancelled, late, in_the_middle, no_memory);
  CHECK(ok > kCalls / 20);
  CHECK(cancelled > kCalls / 20);
  CHECK(late > kCalls / 20);
  CHECK(in_the_middle > kCalls / 20);
  CHECK(service.probe.wrong == 0);
  // Nothing stays in the pools: soon the largest that fits does, each way.
  std::string why;
  const bool fits = Eventually([&] {
    const auto last = client.Do(Request(client, 7, 4 * MiB), {.timeout = seconds(30)});
    why = last.status().ToString();
    return last.ok() && IsOf(7, (*last)->data());
  });
  INFO(why);
  CHECK(fits);
  CHECK(channel.info().stats.connects == 1);
  CHECK(healthy.Trouble() == "");
}

TEST_CASE("handlers that block hold up neither large transfers nor small calls beside them") {
  const hostile::LogLines log;
  Service service;
  const Channel channel = service.Dial();
  Probe::Client client(channel);
  testing::Blocker::Client blocker(channel);
  constexpr int kBlocked = 8;  // as many as there are workers
  std::atomic<int> let_go{0};
  for (int i = 0; i < kBlocked; ++i) {
    testing::AskT ask;
    ask.data.assign(i % 2 == 0 ? 100 : MiB, 1);
    blocker.AsyncBlock(ask, {.timeout = seconds(60)},
                       [&](const absl::StatusOr<Msg<Answer>>& answer) { let_go += answer.ok(); });
  }
  REQUIRE(Eventually([&] { return service.blocker.ran == kBlocked; }));
  for (uint64_t i = 0; i < (kSanitized ? 20 : 100); ++i) {
    const size_t bytes = i % 2 == 0 ? 3 * MiB : size_t{100};
    const auto answer = client.Do(Request(client, i, bytes), {.timeout = seconds(30)});
    INFO(answer.status());
    REQUIRE(answer.ok());
    CHECK(IsOf(i, (*answer)->data()));
  }
  CHECK(let_go == 0);
  CHECK(service.probe.wrong == 0);
  service.blocker.let_go = true;
  CHECK(Eventually([&] { return let_go == kBlocked; }));
}

// ---- connections that come and go ----

constexpr int kAtOnce = 25;

// Channels that leave: before they are connected, when idle, with calls of all sizes under way.
enum class Leave { kEarly, kIdle, kInFlight };

void ComeAndGo(Service& service, const std::shared_ptr<EventLoop>& loop, Leave when) {
  std::atomic<int> ended{0};
  int started = 0;
  {
    std::vector<Channel> channels;
    const int waiting = service.probe.ran;
    for (int i = 0; i < kAtOnce; ++i) {
      // Some have a loop, and so a thread, of their own.
      channels.push_back(service.Dial(i % 5 == 0 ? nullptr : loop));
      if (when == Leave::kEarly) continue;
      Probe::Client client(channels.back());
      const size_t bytes = i % 2 == 0 ? size_t{100} : size_t{200'000};
      REQUIRE(client.Do(Request(client, 1, bytes), {.timeout = seconds(30)}).ok());
      if (when == Leave::kIdle) continue;
      const auto count = [&ended](const absl::StatusOr<Msg<Answer>>& /*answer*/) { ++ended; };
      testing::AskT ask;
      ask.number = 60'000;  // ms
      client.AsyncWait(ask, {.timeout = seconds(60)}, count);
      for (int j = 0; j < 3; ++j) {
        client.AsyncDo(Request(client, 2, 500'000), {.timeout = seconds(60)}, count);
      }
      started += 4;
    }
    if (when == Leave::kInFlight) {
      REQUIRE(Eventually([&] { return service.probe.ran >= waiting + kAtOnce; }, seconds(30)));
    }
  }
  REQUIRE(Eventually([&] { return ended == started; }, seconds(30)));
  REQUIRE(Eventually(
      [&] {
        const ServerStats stats = service.server.stats();
        return stats.connections_open == 0 && stats.calls_running == 0;
      },
      seconds(30)));
}

void Round(Service& service, const std::shared_ptr<EventLoop>& loop) {
  for (const Leave when : {Leave::kEarly, Leave::kIdle, Leave::kInFlight}) {
    ComeAndGo(service, loop, when);
  }
}

TEST_CASE("1,000 connects and disconnects over shm leave descriptors, threads and memory") {
  const hostile::LogLines log;
  Service service;
  const auto loop = std::make_shared<EventLoop>();
  constexpr int kConnectsARound = 3 * kAtOnce;
  constexpr int kRounds = (kSanitized ? 150 : 1'000) / kConnectsARound + 1;
  for (int i = 0; i < 5; ++i) Round(service, loop);  // what is made once is made now
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::set<int> descriptors = Descriptors(::getpid());
  const size_t threads = Threads(::getpid());
  const hostile::Usage before = hostile::Usage::Now();
  for (int i = 0; i < kRounds; ++i) Round(service, loop);

  CHECK(Eventually([&] { return Descriptors(::getpid()).size() == descriptors.size(); },
                   seconds(30)));
  CHECK(Eventually([&] { return Threads(::getpid()) == threads; }, seconds(30)));
  const size_t slack = (size_t{64} << 10) + kRounds * kConnectsARound * sizeof(void*);
  CHECK(Eventually([&] { return hostile::Usage::Now().heap_bytes <= before.heap_bytes + slack; },
                   seconds(30)));
  const hostile::Usage after = hostile::Usage::Now();
  CAPTURE(before.heap_bytes, after.heap_bytes, before.resident_bytes, after.resident_bytes);
  CHECK(after.heap_bytes <= before.heap_bytes + slack);
  CHECK(after.resident_bytes <= before.resident_bytes + (size_t{8} << 20));
}

TEST_CASE("a reply that cannot be copied into the send pool costs its own call") {
  const hostile::LogLines log;
  TransportOptions options;
  options.shm.rdma.connection_pool_bytes = 16 * MiB;
  services::EchoImpl echo;
  Server server;
  REQUIRE(server.Add(services::Echo::Bind(echo)).ok());
  const absl::StatusOr<Endpoint> at = Listen(server, NewName(), options);
  REQUIRE(at.ok());
  const absl::StatusOr<Channel> channel = Dial(at->ToString());
  REQUIRE(channel.ok());
  services::Echo::Client client(*channel);
  const CallOptions patient{.timeout = seconds(20)};
  for (int round = 0; round < 3; ++round) {
    services::BytesRequestT large;
    large.reply_attachment_bytes = 32 * MiB;
    services::SayRequestT small;
    small.text = "before";
    CHECK(client.Say(small, patient).ok());
    const absl::Status refused = client.Bytes(large, patient).status();
    INFO(refused);
    CHECK(absl::IsResourceExhausted(refused));
    CHECK(OutcomeOf(refused) == Outcome::kAnswered);
    CHECK_THAT(std::string(refused.message()),
               Catch::Contains("rdma send pool") && Catch::Contains("connection_pool_bytes"));
    large.reply_attachment_bytes = MiB;
    CHECK(client.Bytes(large, patient).ok());
  }
  CHECK(channel->info().stats.connects == 1);
}

}  // namespace
}  // namespace farcall::faults
