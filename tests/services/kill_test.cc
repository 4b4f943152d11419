// The server dies by SIGKILL under load: every call ends within its bound, none that is reported
// 'not sent' or 'not run' ever ran, and the same channel reaches the next server.

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "farcall/tests/services/child.h"
#include "farcall/tests/services/journal.h"
#include "farcall/transports/dial.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTimeout = seconds(5);

TEST_CASE("kill -9 under 64 outstanding calls") {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("farcall-kill-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string journal = folder + "/journal";
  const std::string program = std::string(FARCALL_TEST_PROGRAMS) + "/journal_server";
  const std::string scheme = GENERATE("tcp", "unix", "shm", "auto");
  std::filesystem::remove(journal);
  std::string address = scheme == "tcp"    ? "tcp://127.0.0.1:0"
                        : scheme == "auto" ? "auto://127.0.0.1:0"
                        : scheme == "unix" ? "unix://" + folder + "/socket"
                                           : "shm://farcall-kill-" + std::to_string(::getpid());

  auto server = std::make_unique<Child>(std::vector<std::string>{program, address, journal});
  REQUIRE_FALSE(server->address().empty());
  address = server->address();  // the next server takes the same port
  auto channel = Dial(address, {.backoff = {.first = milliseconds(5), .max = milliseconds(50)}});
  REQUIRE(channel.ok());
  {
    JournalLoad load(*channel, {.outstanding = 64, .timeout = kTimeout});
    for (int life = 0; life < 4; ++life) {
      std::this_thread::sleep_for(milliseconds(150));
      server->End(SIGKILL);
      std::this_thread::sleep_for(milliseconds(30));
      server = std::make_unique<Child>(std::vector<std::string>{program, address, journal});
      REQUIRE(server->address() == address);
    }
    std::this_thread::sleep_for(milliseconds(150));
    REQUIRE(load.Stop(kTimeout + seconds(5)));

    const JournalVerdict verdict = Judge(load.ends(), ReadJournal(journal));
    CHECK(verdict.trouble == "");
    CHECK(verdict.ok > 64);
    CHECK(verdict.unknown > 0);  // some were caught in the handler: else this test proves little
  }
  Journal::Client client(*channel);
  EntryT entry;
  CHECK(client.Note(entry, {.timeout = seconds(10), .wait_for_ready = true}).ok());
  if (scheme == "auto") {
    const TimePoint late = Clock::Steady().Now() + seconds(20);
    while (channel->info().paths.in_use != "shm" && Clock::Steady().Now() < late) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    CHECK(channel->info().paths.in_use == "shm");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace farcall::testing
