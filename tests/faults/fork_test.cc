// A server whose handlers fork: the child runs a program, ends at once, or stays.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <optional>
#include <thread>

#include "farcall/rpc/outcome.h"
#include "farcall/tests/faults/process.h"
#include "farcall/tests/faults/scene.h"
#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/hostile/peer.h"
#include "farcall/tests/rpc/sanitized.h"
#include "farcall/tests/services/journal.h"
#include "farcall/transports/dial.h"
#include "saboteur.rpc.h"

namespace farcall::faults {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Eventually;
using testing::kSanitized;

// What whoever started us lets every program have, collected before the library has any.
std::set<int> Inherited() {
  std::set<int> inherited;
  for (const int descriptor : Descriptors(::getpid())) {
    if ((::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) == 0) inherited.insert(descriptor);
  }
  return inherited;
}
const std::set<int> inherited = Inherited();

// The descriptors of a program that it should not have.
std::set<int> Foreign(pid_t process) {
  std::set<int> foreign = Descriptors(process);
  std::erase_if(foreign, [](int descriptor) {
    return descriptor <= STDERR_FILENO || inherited.contains(descriptor);
  });
  return foreign;
}

// Gives orders; throws when one is not carried out.
int64_t Order(const Channel& channel, const std::string& what) {
  OrderT order;
  order.what = what;
  Saboteur::Client saboteur(channel);
  return saboteur.Do(order, {.timeout = seconds(60)}).value()->number();
}

// The child of somebody else's, killed at the end.
struct Stranger {
  explicit Stranger(int64_t process) : pid(static_cast<pid_t>(process)) {}
  ~Stranger() {
    if (pid > 1) ::kill(pid, SIGKILL);
  }
  const pid_t pid;
};

std::string ProgramOf(pid_t process) {
  char path[4096];
  const std::string link = "/proc/" + std::to_string(process) + "/exe";
  const ssize_t size = ::readlink(link.c_str(), path, sizeof path);
  return size < 0 ? "" : std::string(path, static_cast<size_t>(size));
}

TEST_CASE("fork and exec in a handler: the program gets no descriptor of ours, calls go on") {
  const hostile::LogLines log;
  const std::string scheme = GENERATE("tcp", "unix", "shm");
  const ServerProcess server({.scheme = scheme});
  const hostile::HealthyCaller healthy(server.endpoint());
  auto channel = Dial(server.address());
  REQUIRE(channel.ok());
  testing::JournalLoad load(*channel, {.outstanding = 16});
  const std::string ours = ProgramOf(server.pid());
  for (int i = 0; i < 10; ++i) {
    // Beside it, connections come and go.
    std::optional<Channel> passing = Dial(server.address()).value();
    const Stranger child(Order(*channel, "run"));
    REQUIRE(child.pid > 1);
    REQUIRE(Eventually([&] { return ProgramOf(child.pid) != ours; }));
    CHECK(Eventually([&] { return Foreign(child.pid).empty(); }));  // exec closes the last of them
    CHECK(StatusLine(child.pid, "SigBlk") == "0000000000000000");
  }
  REQUIRE(load.Stop(seconds(10)));
  CHECK(load.failed() == 0);
  CHECK(healthy.Trouble() == "");
}

TEST_CASE("fork in a handler, the child ends at once: nobody notices") {
  const hostile::LogLines log;
  const std::string scheme = GENERATE("tcp", "unix", "shm");
  const ServerProcess server({.scheme = scheme});
  const hostile::HealthyCaller healthy(server.endpoint());
  auto channel = Dial(server.address());
  REQUIRE(channel.ok());
  testing::JournalLoad load(*channel, {.outstanding = 16});
  for (int i = 0; i < (kSanitized ? 10 : 50); ++i) CHECK(Order(*channel, "fork") == 7);
  REQUIRE(load.Stop(seconds(10)));
  CHECK(load.failed() == 0);
  CHECK(channel->info().stats.connects == 1);
  CHECK(healthy.Trouble() == "");
}

TEST_CASE("fork in a handler, the child stays: connections come, go and end as before") {
  const hostile::LogLines log;
  const ServerProcess server({});
  auto channel = Dial(server.address());
  REQUIRE(channel.ok());
  hostile::Peer leaves = hostile::Peer::Connect(server.endpoint());
  hostile::Peer sins = hostile::Peer::Connect(server.endpoint());
  for (hostile::Peer* peer : {&leaves, &sins}) {
    REQUIRE(peer->Say(hostile::Greeting()));
    REQUIRE(peer->Hear(hostile::kHello));
  }
  const Stranger child(Order(*channel, "stay"));
  REQUIRE(child.pid > 1);
  const size_t before = Descriptors(server.pid()).size();
  REQUIRE(Descriptors(child.pid).size() == before);  // it has all of them
  {
    const hostile::HealthyCaller healthy(server.endpoint());
    CHECK(healthy.Trouble(20) == "");
    // A connection that the server ends is over for its peer, although a copy is open.
    REQUIRE(sins.Say("not a record, by far"));
    REQUIRE(sins.Say(std::string(100, '\xff')));
    sins.HearTheEnd();  // or throws in time
    leaves.Reset();
    CHECK(healthy.Trouble() == "");
  }
  // What the child still has of these does not keep the server busy.
  REQUIRE(Eventually([&] { return Descriptors(server.pid()).size() == before - 2; }));
  const Duration cpu = CpuTime(server.pid());
  std::this_thread::sleep_for(seconds(1));
  CHECK(CpuTime(server.pid()) - cpu < milliseconds(kSanitized ? 200 : 50));
  testing::Journal::Client client(*channel);
  CHECK(client.Note(testing::EntryT(), {.timeout = seconds(20)}).ok());
  CHECK(channel->info().stats.connects == 1);
}

TEST_CASE("a server that dies while a child of it stays is found by keepalive") {
  const hostile::LogLines log;
  ServerProcess server({});
  auto channel =
      Dial(server.address(),
           {.keepalive = {.ping_after = milliseconds(300), .ping_timeout = milliseconds(300)}});
  REQUIRE(channel.ok());
  const Stranger child(Order(*channel, "stay"));
  REQUIRE(child.pid > 1);
  testing::Journal::Client client(*channel);
  server.child().End(SIGKILL);
  const auto lost = client.Note(testing::EntryT(), {.timeout = seconds(60)});
  INFO(lost.status());
  CHECK(absl::IsUnavailable(lost.status()));
  CHECK(OutcomeOf(lost.status()) == Outcome::kUnknown);
  CHECK(log.Saw("no answer to PING"));
}

}  // namespace
}  // namespace farcall::faults
