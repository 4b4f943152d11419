// A process that has no descriptor or no memory left: what needs some fails and says so, the rest
// goes on, and all of it works again afterwards.

#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/outcome.h"
#include "farcall/tests/faults/process.h"
#include "farcall/tests/faults/scene.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/rpc/sanitized.h"
#include "farcall/tests/services/journal.h"
#include "farcall/transports/dial.h"
#include "farcall/transports/tcp/connector.h"
#include "farcall/transports/tcp/listener.h"

namespace farcall::faults {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Eventually;

constexpr size_t kMiB = size_t{1} << 20;

// Another process may have so much of something, from now on until this goes.
class Limited {
 public:
  Limited(pid_t process, __rlimit_resource resource, rlim_t limit)
      : process_(process), resource_(resource) {
    if (::prlimit(process_, resource_, nullptr, &before_) != 0) throw std::runtime_error("prlimit");
    const rlimit less{limit, before_.rlim_max};
    if (::prlimit(process_, resource_, &less, nullptr) != 0) throw std::runtime_error("prlimit");
  }
  ~Limited() { ::prlimit(process_, resource_, &before_, nullptr); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  const pid_t process_;
  const __rlimit_resource resource_;
  rlimit before_{};
};

// A loaded machine lets a thread wait for seconds.
ChannelOptions Patient() {
  return {.default_timeout = seconds(60), .keepalive = {.ping_timeout = seconds(60)}};
}

bool Says(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// ---- EMFILE ----

#ifndef FARCALL_TEST_NEEDS_DESCRIPTORS  // the server's sanitizer would end it
TEST_CASE("EMFILE: accepting pauses without spinning, says the remedy once, and recovers") {
  const hostile::LogLines log;
  const std::string scheme = GENERATE("tcp", "unix");
  const ServerProcess server({.scheme = scheme});
  const auto healthy = Dial(server.address(), Patient());
  REQUIRE(healthy.ok());
  testing::Journal::Client before(*healthy);
  REQUIRE(before.Note(testing::EntryT()).ok());
  const auto loop = std::make_shared<EventLoop>();
  const size_t at_first = Descriptors(server.pid()).size();

  for (size_t round = 1; round <= 2; ++round) {
    // The connections of the round before are gone.
    REQUIRE(Eventually([&] { return Descriptors(server.pid()).size() == at_first; }));
    std::vector<Channel> callers;
    std::vector<std::future<bool>> calls;
    {
      const std::set<int> open = Descriptors(server.pid());
      const Limited limited(server.pid(), RLIMIT_NOFILE, static_cast<rlim_t>(*open.rbegin()) + 1);
      // Some may take the numbers that are free below the highest.
      const size_t holes = static_cast<size_t>(*open.rbegin()) + 1 - open.size();
      for (size_t i = 0; i < holes + 8; ++i) {
        callers.push_back(Dial(server.address(), {.loop = loop}).value());
        auto noted = std::make_shared<std::promise<bool>>();
        calls.push_back(noted->get_future());
        testing::Journal::Client(callers.back())
            .AsyncNote(testing::EntryT(), {.timeout = seconds(60), .wait_for_ready = true},
                       [noted](const absl::StatusOr<Msg<testing::Noted>>& reply) {
                         noted->set_value(reply.ok());
                       });
      }
      REQUIRE(Eventually([&] { return server.LogLines("cannot accept connections") == round; }));
      CHECK(server.LogLines("ulimit -n") == round);

      // Idle but for its pauses: some 20 looks in two seconds, each a timer and one system call.
      const Duration cpu = CpuTime(server.pid());
      const uint64_t sleeps = Sleeps(server.pid());
      std::this_thread::sleep_for(seconds(2));
      CHECK(CpuTime(server.pid()) - cpu < milliseconds(testing::kSanitized ? 400 : 100));
      CHECK(Sleeps(server.pid()) - sleeps < 1000);
      CHECK(server.LogLines("cannot accept connections") == round);

      // Who is connected is served; who is not says so in time, and that nothing was sent.
      CHECK(before.Note(testing::EntryT()).ok());
      const auto late = testing::Journal::Client(callers.back())
                            .Note(testing::EntryT(), {.timeout = milliseconds(200)});
      INFO(late.status());
      CHECK(absl::IsDeadlineExceeded(late.status()));
      CHECK(OutcomeOf(late.status()) == Outcome::kNotSent);
    }
    for (std::future<bool>& call : calls) {
      REQUIRE(call.wait_for(seconds(60)) == std::future_status::ready);
      CHECK(call.get());
    }
  }
  CHECK(healthy->info().stats.connects == 1);
}
#endif

// ---- pools that are used up ----

TcpOptions Pools(size_t send_bytes, size_t receive_bytes) {
  TcpOptions options;
  options.send_pool_bytes = send_bytes;
  options.receive_pool_bytes = receive_bytes;
  return options;
}

testing::AskT AskingFor(const std::string& action, uint64_t number, size_t data_bytes) {
  testing::AskT ask;
  ask.action = action;
  ask.number = number;
  ask.data.assign(data_bytes, 3);
  return ask;
}

TEST_CASE("ENOMEM: a receive pool that is used up refuses what does not fit, and recovers") {
  const hostile::LogLines log;
  hostile::Ground ground({}, Pools(256 * kMiB, 16 * kMiB));
  Channel channel(MakeTcpTransport(), ground.endpoint, Patient());
  testing::Blocker::Client blocker(channel);
  constexpr int kCalls = 24;  // of a megabyte each; they stay until they are let go
  std::atomic<int> refused{0}, answered{0}, other{0};
  for (int i = 0; i < kCalls; ++i) {
    blocker.AsyncBlock(AskingFor("", 0, kMiB), {.timeout = seconds(60)},
                       [&](const absl::StatusOr<Msg<testing::Answer>>& reply) {
                         const absl::Status& status = reply.status();
                         if (status.ok()) {
                           ++answered;
                         } else if (absl::IsResourceExhausted(status) && NeverRan(status) &&
                                    Says(status, "tcp receive pool")) {
                           ++refused;
                         } else {
                           ++other;
                         }
                       });
  }
  CHECK(Eventually([&] { return refused > 0; }, seconds(30)));
  CHECK(ground.healthy->Trouble() == "");  // small ones have a part of their own
  ground.blocker.let_go = true;
  REQUIRE(Eventually([&] { return refused + answered + other == kCalls; }, seconds(60)));
  CHECK(other == 0);
  CHECK(answered >= 4);
  CHECK(ground.blocker.ran == answered);
  for (int i = 0; i < kCalls; ++i) {
    const auto reply = blocker.Block(AskingFor("", 0, kMiB), {.timeout = seconds(20)});
    CHECK(reply.status() == absl::OkStatus());
  }
  CHECK(channel.info().stats.connects == 1);
}

TEST_CASE("ENOMEM: what does not fit a sender's or a caller's pool costs its own call") {
  const hostile::LogLines log;
  hostile::Ground ground({}, Pools(32 * kMiB, 256 * kMiB));
  Channel channel(MakeTcpTransport(), ground.endpoint, Patient());
  Channel poor(MakeTcpTransport(Pools(8 * kMiB, 8 * kMiB)), ground.endpoint, Patient());
  testing::Probe::Client rich_client(channel), poor_client(poor);
  for (int round = 0; round < 3; ++round) {
    // So that the pool is the connection's.
    REQUIRE(poor_client.Object(testing::AskT()).ok());
    const absl::Status reply = rich_client.Do(AskingFor("big", 40 * kMiB, 0)).status();
    CHECK(absl::IsResourceExhausted(reply));
    CHECK(Says(reply, "tcp send pool"));
    CHECK(OutcomeOf(reply) == Outcome::kAnswered);  // the handler ran
    const absl::Status request = poor_client.Do(AskingFor("", 0, 10 * kMiB)).status();
    CHECK(absl::IsResourceExhausted(request));
    CHECK(Says(request, "tcp send pool"));
    CHECK(OutcomeOf(request) == Outcome::kNotSent);
    const absl::Status taken = poor_client.Do(AskingFor("big", 7 * kMiB, 0)).status();
    INFO(taken);
    CHECK(absl::IsResourceExhausted(taken));
    CHECK(Says(taken, "tcp receive pool"));
    CHECK_FALSE(NeverRan(taken));
    CHECK(rich_client.Do(AskingFor("big", kMiB, kMiB)).ok());
    CHECK(poor_client.Do(AskingFor("big", kMiB, kMiB)).ok());
  }
  CHECK(channel.info().stats.connects == 1);
  CHECK(poor.info().stats.connects == 1);
  CHECK(ground.healthy->Trouble() == "");
}

// ---- a system that gives no memory ----

// Plain memory that can be told to give none.
class Moody final : public SlabSource {
 public:
  explicit Moody(const std::atomic<bool>& refuses) : refuses_(refuses) {}

  absl::StatusOr<Slab> Map(size_t bytes) override {
    if (refuses_) return Refusal();
    return plain_->Map(bytes);
  }
  void Unmap(const Slab& slab) override { plain_->Unmap(slab); }
  bool lazy() const override { return true; }
  absl::StatusOr<Slab> MapLazily(size_t bytes) override {
    if (refuses_) return Refusal();
    return plain_->MapLazily(bytes);
  }
  void Commit(const Slab& slab, size_t from, size_t to) override { plain_->Commit(slab, from, to); }

 private:
  static absl::Status Refusal() { return absl::ResourceExhaustedError("no memory today"); }

  const std::atomic<bool>& refuses_;
  const std::unique_ptr<SlabSource> plain_ = PlainMemory();
};

// TCP on pools whose memory is Moody.
class MoodyTransport final : public Transport {
 public:
  explicit MoodyTransport(const std::atomic<bool>& refuses) {
    auto settings = std::make_shared<tcp::Settings>();
    for (auto* pool : {&settings->pools.send, &settings->pools.receive}) {
      // Nothing large stays warm: each asks the source.
      *pool =
          std::make_shared<BufferPool>(BufferPoolOptions{.name = "moody", .max_cached_bytes = kMiB},
                                       std::make_unique<Moody>(refuses));
    }
    settings_ = std::move(settings);
  }
  std::unique_ptr<PendingConnect> Connect(EventLoop& loop, const Endpoint& endpoint,
                                          TimePoint deadline, ConnectDone done) override {
    return tcp::StartConnect(loop, endpoint, deadline, std::move(done), settings_);
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const Endpoint& endpoint,
                                                   std::vector<EventLoop*> loops,
                                                   Acceptor acceptor) override {
    return tcp::StartListening(endpoint, std::move(loops), std::move(acceptor), settings_);
  }

 private:
  std::shared_ptr<const tcp::Settings> settings_;
};

TEST_CASE("ENOMEM: a source of slabs that fails costs the calls that need it, either side") {
  const hostile::LogLines log;
  std::atomic<bool> refuses{false};
  testing::ProbeImpl probe;
  Server server;
  REQUIRE(server.Add(testing::Probe::Bind(probe)).ok());
  const bool ours = GENERATE(false, true);  // whose memory
  const auto plain = MakeTcpTransport();
  const auto moody = std::make_shared<MoodyTransport>(refuses);
  const auto at = server.Listen(ours ? plain : moody, *ParseEndpoint("tcp://127.0.0.1:0"));
  REQUIRE(at.ok());
  Channel channel(ours ? std::shared_ptr<Transport>(moody) : plain, *at, Patient());
  testing::Probe::Client client(channel);
  const hostile::HealthyCaller healthy(*at);
  const auto large = [&] { return client.Do(AskingFor("", 0, 4 * kMiB)).status(); };
  const auto large_reply = [&] { return client.Do(AskingFor("big", 4 * kMiB, 0)).status(); };
  REQUIRE(large().ok());
  REQUIRE(large_reply().ok());
  REQUIRE(healthy.Trouble() == "");
  for (int round = 0; round < 3; ++round) {
    refuses = true;
    const absl::Status sent = large();
    const absl::Status taken = large_reply();
    INFO(sent << "\n" << taken);
    CHECK(absl::IsResourceExhausted(sent));
    CHECK(Says(sent, "moody pool: no memory today"));
    CHECK(NeverRan(sent));
    CHECK(absl::IsResourceExhausted(taken));
    CHECK(Says(taken, "moody pool: no memory today"));
    CHECK_FALSE(NeverRan(taken));
    CHECK(healthy.Trouble() == "");
    refuses = false;
    CHECK(large().ok());
    CHECK(large_reply().ok());
  }
  CHECK(channel.info().stats.connects == 1);
}

TEST_CASE("ENOMEM: a server at the limit of its address space refuses large calls and recovers") {
  if (testing::kSanitized) return;  // a sanitizer's shadow is larger than any limit
  const hostile::LogLines log;
  const ServerProcess server({});
  const hostile::HealthyCaller healthy(server.endpoint());
  auto channel = Dial(server.address(), Patient());
  REQUIRE(channel.ok());
  testing::Journal::Client client(*channel);
  testing::EntryT large;
  large.data.assign(100 * kMiB, 3);
  testing::EntryT large_reply;
  large_reply.reply_bytes = 100 * kMiB;
  REQUIRE(client.Note(testing::EntryT()).ok());
  REQUIRE(healthy.Trouble() == "");
  {
    const Limited limited(server.pid(), RLIMIT_AS, AddressSpace(server.pid()) + 32 * kMiB);
    const absl::Status sent = client.Note(large).status();
    INFO(sent);
    CHECK(absl::IsResourceExhausted(sent));
    CHECK(NeverRan(sent));
    CHECK(Says(sent, "the system has no"));
    const absl::Status taken = client.Note(large_reply).status();
    INFO(taken);
    CHECK(absl::IsResourceExhausted(taken));
    CHECK_FALSE(NeverRan(taken));
    CHECK(healthy.Trouble(20) == "");
  }
  CHECK(client.Note(large).ok());
  CHECK(client.Note(large_reply).ok());
  CHECK(channel->info().stats.connects == 1);
}

}  // namespace
}  // namespace farcall::faults
