// Signals: none kills the process, none disturbs a call, and the program's own are left alone.

#include <signal.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>
#include <future>

#include "farcall/tests/faults/interrupts.h"
#include "farcall/tests/faults/proxy.h"
#include "farcall/tests/faults/scene.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/rpc/sanitized.h"
#include "farcall/tests/services/journal.h"
#include "farcall/transports/dial.h"
#include "saboteur.rpc.h"

namespace farcall::faults {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::kSanitized;

// ---- SIGPIPE ----

// What every signal does, and which are blocked on this thread.
std::string Dispositions() {
  std::string all;
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    all += std::to_string(signal) + (action.sa_handler == SIG_DFL   ? " default"
                                     : action.sa_handler == SIG_IGN ? " ignored"
                                                                    : " handled");
    all += ::sigismember(&blocked, signal) == 1 ? " blocked\n" : "\n";
  }
  return all;
}

TEST_CASE("SIGPIPE: a peer that closes while we write costs its connection, not the process") {
  REQUIRE(::signal(SIGPIPE, SIG_DFL) != SIG_ERR);  // whoever started us may have ignored it
  const std::string before = Dispositions();
  REQUIRE(before.find(std::to_string(SIGPIPE) + " default\n") != std::string::npos);
  const hostile::LogLines log;
  const std::string scheme = GENERATE("tcp", "unix");
  const ServerProcess server({.scheme = scheme});
  const hostile::HealthyCaller healthy(server.endpoint());
  const Folder folder;
  Proxy proxy(*ParseEndpoint(folder.AddressFor(scheme)), server.endpoint());
  // Busy: this thread finds each moment at which it can write, also the one after the end.
  auto channel = Dial(
      proxy.address().ToString(),
      {.mode = ProgressMode::kBusy, .backoff = {.first = milliseconds(1), .max = milliseconds(5)}});
  REQUIRE(channel.ok());
  testing::Journal::Client client(*channel);
  testing::EntryT entry;
  entry.data.assign(4 << 20, 3);
  entry.reply_bytes = 4 << 20;
  size_t failed = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    const auto way = i % 2 == 0 ? Proxy::Way::kRequests : Proxy::Way::kReplies;
    proxy.CutAfter(way, 100'000 + 50'000 * i, Proxy::Cut::kClose);
    const auto noted = client.Note(entry, {.timeout = seconds(20), .wait_for_ready = true});
    if (noted.ok()) continue;
    ++failed;
    INFO(noted.status());
    CHECK(absl::IsUnavailable(noted.status()));
  }
  CHECK(failed > 30);
  CHECK(proxy.cuts() >= failed);
  CHECK(healthy.Trouble() == "");
  CHECK(Dispositions() == before);
}

// ---- EINTR ----

Duration Interval() { return kSanitized ? microseconds(1000) : microseconds(100); }

size_t BytesOf(uint64_t call) {
  constexpr size_t kSizes[] = {0, 100, 3000, 20'000, 64 << 10, 200'000};
  return call % 200 == 199 ? size_t{1} << 20 : kSizes[call % std::size(kSizes)];
}

testing::EntryT EntryOf(uint64_t call) {
  testing::EntryT entry;
  entry.number = call;
  entry.reply_bytes = BytesOf(call / 2);
  entry.data.assign(BytesOf(call), 3);
  return entry;
}

const CallOptions kPatient{.timeout = seconds(60)};

void CallBlocking(const Channel& channel, uint64_t from, uint64_t to, std::atomic<uint64_t>& ok) {
  testing::Journal::Client client(channel);
  for (uint64_t call = from; call < to; ++call) {
    const auto noted = client.Note(EntryOf(call), kPatient);
    if (!noted.ok()) {
      UNSCOPED_INFO(noted.status());
      return;
    }
    if ((*noted)->number() == call) ++ok;
  }
}

void CallWithCallbacks(const Channel& channel, uint64_t from, uint64_t to,
                       std::atomic<uint64_t>& ok) {
  testing::Journal::Client client(channel);
  std::promise<void> done;
  std::atomic<uint64_t> left = to - from;
  std::atomic<uint64_t> next = from;
  std::function<void()> start = [&] {
    const uint64_t call = next++;
    if (call >= to) return;
    client.AsyncNote(EntryOf(call), kPatient,
                     [&, call](const absl::StatusOr<Msg<testing::Noted>>& noted) {
                       if (noted.ok() && (*noted)->number() == call) ++ok;
                       start();
                       if (--left == 0) done.set_value();
                     });
  };
  for (int i = 0; i < 16; ++i) start();
  done.get_future().wait();
}

void CallInCoroutine(const Channel& channel, uint64_t from, uint64_t to,
                     std::atomic<uint64_t>& ok) {
  testing::Journal::Client client(channel);
  asio::co_spawn(
      channel.loop().executor(),
      [&]() -> asio::awaitable<void> {
        for (uint64_t call = from; call < to; ++call) {
          const auto noted =
              co_await client.AsyncNote(EntryOf(call), kPatient, asio::use_awaitable);
          if (noted.ok() && (*noted)->number() == call) ++ok;
        }
      },
      asio::use_future)
      .get();
}

TEST_CASE("EINTR: 10,000 calls of all sizes and kinds between signals every 100 us all succeed") {
  const std::string scheme = GENERATE("tcp", "unix", "shm");
  const uint64_t calls = kSanitized ? 1'000 : 10'000;
  const ServerProcess server({.scheme = scheme});
  auto channel = Dial(server.address());
  REQUIRE(channel.ok());
  // The server's loop, our own thread, and the channel's helper thread.
  Saboteur::Client saboteur(*channel);
  OrderT order;
  order.what = "interrupt";
  order.number = Interval() / microseconds(1);
  REQUIRE(saboteur.Do(order).ok());
  static const bool ours = [] { return Interrupts::Begin(Interval()), true; }();
  REQUIRE(ours);
  std::promise<void> helper;
  saboteur.AsyncDo(order, {}, [&](const absl::StatusOr<Msg<Report>>&) {
    Interrupts::Begin(Interval());
    helper.set_value();
  });
  helper.get_future().wait();
  const int64_t before = Interrupts::count();

  std::atomic<uint64_t> ok{0};
  CallBlocking(*channel, 0, calls / 2, ok);
  CHECK(ok == calls / 2);
  CallWithCallbacks(*channel, calls / 2, calls * 3 / 4, ok);
  CHECK(ok == calls * 3 / 4);
  CallInCoroutine(*channel, calls * 3 / 4, calls, ok);
  CHECK(ok == calls);

  CHECK(channel->info().stats.connects == 1);
  CHECK(Interrupts::count() - before > 100);
  order.number = 0;
  auto there = saboteur.Do(order);
  REQUIRE(there.ok());
  CHECK((*there)->number() > 100);
  CHECK(server.Ran().size() == calls);
}

}  // namespace
}  // namespace farcall::faults
