// Processes that talk over the software NIC, with calls of all sizes in flight: killed, stopped,
// forked. What either side had of the other goes with it.

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <thread>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/faults/mix.h"
#include "farcall/tests/faults/process.h"
#include "farcall/tests/faults/scene.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/rpc/sanitized.h"
#include "farcall/transports/dial.h"

namespace farcall::faults {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Child;
using testing::Eventually;
using testing::kSanitized;

// Sockets of this test's processes only: its own, and those that it starts.
class Runtime {
 public:
  Runtime() { ::setenv("XDG_RUNTIME_DIR", (folder_ / "").c_str(), 1); }
  std::set<std::string> Entries() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "farcall")) {
      names.insert(entry.path().filename());
    }
    return names;
  }

 private:
  const Folder folder_;
};

std::string NewName() {
  static int names = 0;
  return "shm://faults-" + std::to_string(::getpid()) + "-" + std::to_string(++names);
}

// Memory that a process really has, in kB; 0 where a sanitizer makes it meaningless.
size_t Resident(pid_t process) {
  if (kSanitized) return 0;
  return std::stoul(StatusLine(process, "RssAnon")) + std::stoul(StatusLine(process, "RssShmem"));
}

// How many descriptors a process has, once that has not changed for a while: those of a handshake
// or of a client that was killed are there for as long as it takes.
size_t SettledDescriptors(pid_t process) {
  constexpr int kLooks = 200;  // some ms apart
  size_t descriptors = 0;
  int same = 0;
  CHECK(Eventually([&] {
    const size_t now = Descriptors(process).size();
    same = std::exchange(descriptors, now) == now ? same + 1 : 0;
    return same == kLooks;
  }));
  return descriptors;
}

TEST_CASE("SIGKILL of a server with calls of all sizes in flight: they end and say what they did") {
  const hostile::LogLines log;
  const Runtime runtime;
  const std::string address = NewName();
  hostile::Rounds rounds;
  std::set<std::string> sockets;
  size_t unknown = 0;
  constexpr int kLives = kSanitized ? 3 : 9;
  for (int life = 0; life < kLives; ++life) {
    ServerProcess server({.address = address});
    {
      // Of this life: what it keeps for later goes with it.
      auto channel = Dial(address);
      REQUIRE(channel.ok());
      testing::Journal::Client client(*channel);
      REQUIRE(
          client.Note(testing::EntryT(), {.timeout = seconds(20), .wait_for_ready = true}).ok());
      Mix mix(*channel);
      REQUIRE(Eventually([&] { return mix.Succeeded(3); }, seconds(30)));
      const uint64_t before = mix.failed();
      CHECK(before == 0);
      server.child().End(SIGKILL);
      // Their deadlines are a minute away.
      CHECK(Eventually([&] { return mix.failed() >= before + Mix::kSlots; }, seconds(10)));
      REQUIRE(mix.Stop(seconds(10)));
      const testing::JournalEnds ends = mix.ends();
      const testing::JournalVerdict verdict = testing::Judge(ends, server.Ran());
      CHECK(verdict.trouble == "");
      unknown += verdict.unknown;
      for (const auto& [number, statuses] : ends) {
        INFO(statuses[0]);
        if (!statuses[0].ok()) CHECK(absl::IsUnavailable(statuses[0]));
      }
    }
    // What it left is the name of a listener, which the next one takes over.
    if (life == 0) sockets = runtime.Entries();
    CHECK(runtime.Entries() == sockets);
    SettledDescriptors(::getpid());  // the connection may linger
    rounds.Add();
  }
  CHECK(unknown > 0);  // else this proves little
  constexpr size_t kCallsALife = 1000;
  if (!kSanitized) CHECK(rounds.Trouble(kCallsALife) == "");
}

// Calls that fail at once do not drive the loop. It must be driven all the same.
TEST_CASE(
    "a caller that tries again at any pace finds a server that was killed and started again") {
  const milliseconds pause = GENERATE(milliseconds(1), milliseconds(60), milliseconds(250));
  INFO(pause.count() << " ms");
  const hostile::LogLines log;
  const Runtime runtime;
  const std::string address = NewName();
  auto server = std::make_unique<ServerProcess>(ServerProcess::Options{.address = address});
  const auto channel = Dial(address);
  REQUIRE(channel.ok());
  testing::Journal::Client client(*channel);
  const auto answers = [&] {
    return client.Note(testing::EntryT(), {.timeout = seconds(20)}).ok();
  };
  REQUIRE(Eventually(answers));
  // Long enough for the helper thread to look seldom.
  const auto busy_until = std::chrono::steady_clock::now() + milliseconds(700);
  while (std::chrono::steady_clock::now() < busy_until) REQUIRE(answers());
  server->child().End(SIGKILL);
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(answers());
    std::this_thread::sleep_for(pause);
  }
  server = std::make_unique<ServerProcess>(ServerProcess::Options{.address = address});
  CHECK(Eventually([&] {
    if (answers()) return true;
    std::this_thread::sleep_for(pause);
    return false;
  }));
}

TEST_CASE("SIGKILL of a client with calls of all sizes in flight: the server is as before") {
  const hostile::LogLines log;
  const Runtime runtime;
  const ServerProcess server({.address = NewName()});
  const hostile::HealthyCaller healthy(server.endpoint());
  REQUIRE(healthy.Trouble() == "");
  const std::set<std::string> sockets = runtime.Entries();
  const auto round = [&] {
    Child client({Program("faults_mixing"), server.address()});
    REQUIRE(client.address() == "ready");
    client.End(SIGKILL);
    CHECK(healthy.Trouble() == "");
  };
  round();
  round();
  const size_t descriptors = SettledDescriptors(server.pid()), threads = Threads(server.pid());
  const size_t resident = Resident(server.pid());
  for (int i = 0; i < (kSanitized ? 3 : 10); ++i) round();
  CHECK(SettledDescriptors(server.pid()) == descriptors);
  CHECK(Threads(server.pid()) == threads);
  CHECK(Eventually([&] { return Resident(server.pid()) <= resident + 4096; }));
  CHECK(runtime.Entries() == sockets);
}

TEST_CASE("SIGSTOP of a client in the middle of transfers, for a while: no call notices") {
  const hostile::LogLines log;
  const Runtime runtime;
  const ServerProcess server({.address = NewName()});
  const hostile::HealthyCaller healthy(server.endpoint());
  Child client({Program("faults_mixing"), server.address()});
  REQUIRE(client.address() == "ready");
  for (int i = 0; i < 5; ++i) {
    Signal(client.pid(), SIGSTOP);
    REQUIRE(WaitUntilStopped(client.pid()));
    CHECK(healthy.Trouble(20) == "");
    Signal(client.pid(), SIGCONT);
    CHECK(healthy.Trouble(5) == "");
  }
  Signal(client.pid(), SIGTERM);
  std::istringstream counts(client.ReadLine());
  uint64_t succeeded = 0, failed = 1;
  counts >> succeeded >> failed;
  CHECK(succeeded > Mix::kSlots);
  CHECK(failed == 0);
  CHECK(WEXITSTATUS(client.End(0)) == 0);
}

TEST_CASE("SIGSTOP of a client for good: the server gives it up and has its memory back") {
  const hostile::LogLines log;
  const Runtime runtime;
  const ServerProcess server({.address = NewName(), .ping_ms = kSanitized ? 1500 : 500});
  const hostile::HealthyCaller healthy(server.endpoint());
  REQUIRE(healthy.Trouble() == "");
  const size_t descriptors = Descriptors(server.pid()).size();
  Child client({Program("faults_mixing"), server.address()});
  REQUIRE(client.address() == "ready");
  CHECK(Descriptors(server.pid()).size() > descriptors);
  Signal(client.pid(), SIGSTOP);
  REQUIRE(WaitUntilStopped(client.pid()));
  CHECK(Eventually([&] { return Descriptors(server.pid()).size() == descriptors; }, seconds(30)));
  CHECK(healthy.Trouble() == "");
  // It comes back, and goes on by a new connection.
  Signal(client.pid(), SIGCONT);
  CHECK(Eventually([&] { return Descriptors(server.pid()).size() > descriptors; }, seconds(30)));
  Signal(client.pid(), SIGTERM);
  std::istringstream counts(client.ReadLine());
  uint64_t succeeded = 0, failed = 0;
  counts >> succeeded >> failed;
  CHECK(succeeded > Mix::kSlots);
  CHECK(failed > 0);
  CHECK(healthy.Trouble() == "");
}

TEST_CASE("fork in a client, with and without exec, a child that stays: its calls go on") {
  const hostile::LogLines log;
  const Runtime runtime;
  const ServerProcess server({.address = NewName()});
  const hostile::HealthyCaller healthy(server.endpoint());
  Child client({Program("faults_mixing"), server.address(), "fork"});
  REQUIRE(client.address() == "ready");
  Signal(client.pid(), SIGTERM);
  std::istringstream counts(client.ReadLine());
  uint64_t succeeded = 0, failed = 1;
  counts >> succeeded >> failed;
  CHECK(succeeded > Mix::kSlots);
  CHECK(failed == 0);
  CHECK(WEXITSTATUS(client.End(0)) == 0);
  CHECK(healthy.Trouble() == "");
}

TEST_CASE("process exit with calls in flight over shm, by every way out: nothing is left") {
  const std::string how = GENERATE("return", "exit", "callback", "quick_exit", "_exit");
  INFO(how);
  const hostile::LogLines log;
  const Runtime runtime;
  const ServerProcess server({.address = NewName()});
  const hostile::HealthyCaller healthy(server.endpoint());
  REQUIRE(healthy.Trouble() == "");
  const size_t descriptors = SettledDescriptors(server.pid());
  Child child({Program("faults_exiting"), server.address(), how});
  REQUIRE(child.address() == "ready");
  CHECK(Descriptors(server.pid()).size() > descriptors);
  const int status = child.End(SIGTERM);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(Eventually([&] { return Descriptors(server.pid()).size() == descriptors; }));
  CHECK(healthy.Trouble() == "");
}

}  // namespace
}  // namespace farcall::faults
