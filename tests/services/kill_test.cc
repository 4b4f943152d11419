// The server dies by SIGKILL under load: every call ends within its bound, none that is reported
// 'not sent' or 'not run' ever ran, and the same channel reaches the next server.

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <set>

#include "farcall/rpc/mutex.h"
#include "farcall/rpc/outcome.h"
#include "farcall/tests/services/child.h"
#include "farcall/transports/dial.h"
#include "journal.rpc.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTimeout = seconds(5);

std::set<uint64_t> ReadJournal(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::set<uint64_t> numbers;
  for (uint64_t number = 0; file.read(reinterpret_cast<char*>(&number), sizeof number);) {
    numbers.insert(number);
  }
  return numbers;
}

// Keeps `outstanding` calls under way until told to stop; remembers how each ended.
class Load {
 public:
  Load(const Channel& channel, int outstanding) : client_(channel), slots_(outstanding) {
    for (int i = 0; i < outstanding; ++i) Next();
  }

  // No new calls; false when some do not end within the bound.
  bool Stop(Duration bound) {
    stopping_ = true;
    const TimePoint end = Clock::Steady().Now() + bound;
    while (ended_slots_ < slots_) {
      if (Clock::Steady().Now() > end) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }

  std::map<uint64_t, absl::Status> results() {
    MutexLock lock(mutex_);
    return results_;
  }

 private:
  void Next() {
    if (stopping_) {
      ++ended_slots_;
      return;
    }
    EntryT entry;
    entry.number = ++last_;
    entry.work_us = 20;
    client_.AsyncNote(entry, {.timeout = kTimeout},
                      [this, number = entry.number](const absl::StatusOr<Msg<Noted>>& reply) {
                        {
                          MutexLock lock(mutex_);
                          results_[number] = reply.status();
                        }
                        // A channel that cannot connect fails at once: do not spin on it.
                        if (!reply.ok()) std::this_thread::sleep_for(milliseconds(1));
                        Next();
                      });
  }

  Journal::Client client_;
  const int slots_;
  std::atomic<uint64_t> last_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> ended_slots_{0};
  Mutex mutex_;
  std::map<uint64_t, absl::Status> results_ ABSL_GUARDED_BY(mutex_);
};

TEST_CASE("kill -9 under 64 outstanding calls") {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("farcall-kill-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string journal = folder + "/journal";
  const std::string program = std::string(FARCALL_TEST_PROGRAMS) + "/journal_server";
  const std::string scheme = GENERATE("tcp", "unix");
  std::filesystem::remove(journal);
  std::string address = scheme == "tcp" ? "tcp://127.0.0.1:0" : "unix://" + folder + "/socket";

  auto server = std::make_unique<Child>(std::vector<std::string>{program, address, journal});
  REQUIRE_FALSE(server->address().empty());
  address = server->address();  // the next server takes the same port
  auto channel = Dial(address, {.backoff = {.first = milliseconds(5), .max = milliseconds(50)}});
  REQUIRE(channel.ok());
  {
    Load load(*channel, 64);
    for (int life = 0; life < 4; ++life) {
      std::this_thread::sleep_for(milliseconds(150));
      server->End(SIGKILL);
      std::this_thread::sleep_for(milliseconds(30));
      server = std::make_unique<Child>(std::vector<std::string>{program, address, journal});
      REQUIRE(server->address() == address);
    }
    std::this_thread::sleep_for(milliseconds(150));
    REQUIRE(load.Stop(kTimeout + seconds(5)));

    const std::set<uint64_t> ran = ReadJournal(journal);
    size_t ok = 0;
    size_t unknown = 0;
    for (const auto& [number, status] : load.results()) {
      if (status.ok()) {
        ++ok;
        CHECK(ran.contains(number));
        continue;
      }
      INFO(number << ": " << status);
      if (NeverRan(status)) CHECK_FALSE(ran.contains(number));
      if (OutcomeOf(status) == Outcome::kUnknown) ++unknown;
      CHECK(OutcomeOf(status) != Outcome::kAnswered);
    }
    CHECK(ok > 64);
    CHECK(unknown > 0);  // some were caught in the handler: else this test proves little
  }
  Journal::Client client(*channel);
  EntryT entry;
  CHECK(client.Note(entry, {.timeout = seconds(10), .wait_for_ready = true}).ok());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace farcall::testing
