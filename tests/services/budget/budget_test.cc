// What a small call on a warm channel costs, counted from outside of both processes: heap
// allocations by a preloaded malloc (bench/measure/malloc_count.cc), system calls by strace; and
// what an idle connection costs in memory.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "farcall/tests/services/child.h"

namespace farcall::testing {
namespace {

const std::string kPrograms = FARCALL_TEST_PROGRAMS;

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("farcall-budget-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string File(const std::string& name) const { return path_ / name; }

 private:
  const std::filesystem::path path_;
};

// What `command` prints; "" when it fails.
std::string Output(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char part[256];
  while (std::fgets(part, sizeof part, pipe) != nullptr) text += part;
  return ::pclose(pipe) == 0 ? text : "";
}

std::string Client(const std::string& address, const std::string& mode, const std::string& form,
                   size_t calls) {
  return kPrograms + "/budget_client " + address + " " + mode + " " + form + " " +
         std::to_string(calls);
}

// In 2,000 calls: some table that grows once more when a starved process meets an order of things
// that it had not met before.
constexpr int64_t kRare = 2;

TEST_CASE("a steady small call allocates nothing in either process") {
  const std::string mode = GENERATE("busy", "event");
  const std::string form = GENERATE("block", "callback", "awaitable");
  const std::string scheme = GENERATE("tcp", "unix", "shm");
  const Folder folder;
  const std::string preload = "LD_PRELOAD=" FARCALL_MALLOC_COUNT_LIBRARY;
  const auto counting = [&](const std::string& who) {
    return std::vector<std::string>{"/usr/bin/env", preload,
                                    "FARCALL_MALLOC_COUNT=" + folder.File(who)};
  };
  std::vector<std::string> command = counting("server");
  command.insert(command.end(),
                 {kPrograms + "/farcall_echo_server",
                  scheme == "tcp"    ? "tcp://127.0.0.1:0"
                  : scheme == "unix" ? "unix://" + folder.File("socket")
                                     : "shm://farcall-budget-" + std::to_string(::getpid()),
                  "--mode", mode});
  const Child server(command);
  REQUIRE_FALSE(server.address().empty());

  std::string client;
  for (const std::string& word : counting("client")) client += word + " ";
  client += Client(server.address(), mode, form, 2000) + " " + folder.File("client") + " " +
            folder.File("server");
  std::istringstream rises(Output(client));
  int64_t in_client = -1;
  int64_t in_server = -1;
  REQUIRE(rises >> in_client >> in_server);
  INFO(scheme << ", " << mode << ", " << form);
  CHECK(in_client <= kRare);
  CHECK(in_server <= kRare);
}

struct Calls {
  int64_t useful = 0;
  int64_t failed = 0;  // mostly: nothing was there
};
using Profile = std::map<std::string, Calls>;

struct Line {
  double time = 0;
  std::string call;    // its name
  bool begins = true;  // false: the end of one that began in a line before
  bool fails = false;
};

// Lines of `strace -f -ttt`: "pid time name(…) = result", "pid time name(… <unfinished ...>",
// "pid time <... name resumed>…) = result".
std::vector<Line> ReadTrace(const std::string& path) {
  constexpr std::string_view kResumed = "<... ";
  std::vector<Line> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    std::istringstream words(text);
    Line line;
    std::string pid;
    if (!(words >> pid >> line.time)) continue;
    std::string rest;
    std::getline(words >> std::ws, rest);
    line.begins = !rest.starts_with(kResumed);
    if (!line.begins) rest = rest.substr(kResumed.size());
    line.call = rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789"));
    line.fails = rest.find(" = -1 ") != std::string::npos;
    if (!line.call.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

Profile ProfileOf(const std::vector<Line>& trace, double from, double to) {
  Profile profile;
  for (const Line& line : trace) {
    if (line.time <= from || line.time >= to) continue;
    Calls& calls = profile[line.call];
    if (line.begins) ++calls.useful;
    if (line.fails) {
      ++calls.failed;
      --calls.useful;
    }
  }
  return profile;
}

struct Profiles {
  Profile client;
  Profile server;
  double seconds = 0;  // that the measured calls took
};

// Of the measured calls alone: the client marks their begin and their end by calls of getsid, the
// last two of its run, and both traces tell the time.
Profiles Trace(const std::string& address, const std::string& mode, size_t calls,
               const std::string& form = "block") {
  const Folder folder;
  {
    // -D: the process that is started is the server, the tracer its grandchild.
    Child server({"/usr/bin/strace", "-D", "-f", "-ttt", "-o", folder.File("server"),
                  kPrograms + "/farcall_echo_server", address, "--mode", mode});
    REQUIRE_FALSE(server.address().empty());
    Output("strace -f -ttt -o " + folder.File("client") + " " +
           Client(server.address(), mode, form, calls));
    server.End(SIGTERM);
  }
  const std::vector<Line> client = ReadTrace(folder.File("client"));
  std::vector<double> marks;
  for (const Line& line : client) {
    if (line.call == "getsid" && line.begins) marks.push_back(line.time);
  }
  REQUIRE(marks.size() >= 2);
  const double end = marks.back();
  const double begin = marks[marks.size() - 2];
  return {ProfileOf(client, begin, end), ProfileOf(ReadTrace(folder.File("server")), begin, end),
          end - begin};
}

int64_t Useful(const Profile& profile, const std::vector<std::string>& names) {
  int64_t calls = 0;
  for (const std::string& name : names) {
    if (const auto found = profile.find(name); found != profile.end()) {
      calls += found->second.useful;
    }
  }
  return calls;
}

int64_t All(const Profile& profile) {
  int64_t all = 0;
  for (const auto& [name, calls] : profile) all += calls.useful + calls.failed;
  return all;
}

std::string Describe(const Profile& profile) {
  std::string text;
  for (const auto& [name, calls] : profile) {
    text += name + " " + std::to_string(calls.useful) + " (and " + std::to_string(calls.failed) +
            " failed); ";
  }
  return text;
}

const std::vector<std::string> kSends = {"sendto", "sendmsg"};
const std::vector<std::string> kReceives = {"recvfrom", "recvmsg", "readv"};
// Of the descriptor that wakes a loop's helper: it looks after a loop whose caller came back only
// after EventLoop::kIdleTakeover, on a machine that is busy with other things.
const std::vector<std::string> kWakeUps = {"read", "write"};

// The two traces read the clock before or after their calls.
constexpr int64_t kSlack = 5;

bool CanTrace() {
  if (::system("strace -o /dev/null true 2>/dev/null") == 0) return true;
  WARN("strace cannot trace here: system calls were not counted");
  return false;
}

TEST_CASE("a steady blocking call is one send and one receive a side") {
  if (!CanTrace()) return;
  const std::string mode = GENERATE("busy", "event");
  constexpr int64_t kCalls = 1000;
  const Profiles seen = Trace("tcp://127.0.0.1:0", mode, kCalls);
  INFO(mode << ", " << kCalls << " calls. Client: " << Describe(seen.client)
            << " Server: " << Describe(seen.server));
  for (const Profile* side : {&seen.client, &seen.server}) {
    CHECK(Useful(*side, kSends) >= kCalls - kSlack);  // else nothing was counted
    CHECK(Useful(*side, kSends) <= kCalls + kSlack);
    CHECK(Useful(*side, kReceives) <= kCalls + kSlack);
    CHECK(Useful(*side, kWakeUps) <= kCalls / 4);
    CHECK(Useful(*side, {"futex"}) <= Useful(*side, kWakeUps));  // of a quiet machine: none
  }
}

TEST_CASE("a steady blocking call over shared memory makes no system call in busy mode") {
  if (!CanTrace()) return;
  constexpr int64_t kCalls = 20'000;
  const Profiles seen = Trace("shm://farcall-budget-" + std::to_string(::getpid()), "busy", kCalls);
  INFO(kCalls << " calls. Client: " << Describe(seen.client)
              << " Server: " << Describe(seen.server));
  for (const Profile* side : {&seen.client, &seen.server}) {
    // A look at the sockets every 250 us of spinning: on a quiet machine one in 100 calls.
    const auto looks = static_cast<int64_t>(seen.seconds * 1e6 / 125);
    CHECK(Useful(*side, {"epoll_wait"}) <= kCalls / 100 + looks);
    CHECK(Useful(*side, kSends) + Useful(*side, kReceives) == 0);
    CHECK(Useful(*side, {"epoll_ctl"}) == 0);
  }
}

// Fewer calls a second must not mean more system calls each. Those that find nothing count, too.
TEST_CASE("paced calls over shared memory make at most one system call in 100 in busy mode") {
  if (!CanTrace()) return;
  const auto [rate, calls] = GENERATE(std::pair{1000, 2000}, std::pair{20'000, 40'000});
  const Profiles seen = Trace("shm://farcall-budget-" + std::to_string(::getpid()), "busy", calls,
                              "block@" + std::to_string(rate));
  INFO(calls << " calls, " << rate << " a second. Client: " << Describe(seen.client)
             << " Server: " << Describe(seen.server));
  CHECK(seen.seconds >= 0.9 * calls / rate);  // they were paced
  for (const Profile* side : {&seen.client, &seen.server}) CHECK(All(*side) <= calls / 100);
}

// For this process and its children.
bool MayOpen(rlim_t files) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < files) return false;
  limit.rlim_cur = std::max(limit.rlim_cur, files);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

TEST_CASE("an idle connection is at most 16 KiB a side") {
  if (!MayOpen(4096)) {
    WARN("this machine allows less than 4096 open files: connections were not counted");
    return;
  }
  const Child server({kPrograms + "/farcall_echo_server", "tcp://127.0.0.1:0", "--quiet"});
  REQUIRE_FALSE(server.address().empty());
  std::istringstream slopes(Output(kPrograms + "/budget_crowd " + server.address() + " " +
                                   std::to_string(server.pid()) + " 1000 2000"));
  int64_t client_bytes = -1;
  int64_t server_bytes = -1;
  REQUIRE(slopes >> client_bytes >> server_bytes);
  INFO("client " << client_bytes << ", server " << server_bytes << " bytes a connection");
  CHECK(client_bytes > 0);  // else the crowd was not there
  CHECK(client_bytes <= 16 * 1024);
  CHECK(server_bytes > 0);
  CHECK(server_bytes <= 16 * 1024);
}

TEST_CASE("a connection over shared memory stays within its memory, idle and after traffic") {
  // The defaults of RdmaOptions: depth x eager size x 1.5, and something beside.
  constexpr int64_t kMost = 64 * 8192 * 3 / 2 + 256 * 1024;
  const char* const traffic = GENERATE("1 5", "100 32", "100 65536");
  const Child server({kPrograms + "/farcall_echo_server",
                      "shm://farcall-budget-" + std::to_string(::getpid()), "--quiet"});
  REQUIRE_FALSE(server.address().empty());
  std::istringstream slopes(Output(kPrograms + "/budget_crowd " + server.address() + " " +
                                   std::to_string(server.pid()) + " 50 100 " + traffic));
  int64_t client_bytes = -1;
  int64_t server_bytes = -1;
  REQUIRE(slopes >> client_bytes >> server_bytes);
  INFO("calls and bytes: " << traffic << "; client " << client_bytes << ", server " << server_bytes
                           << " bytes a connection");
  CHECK(client_bytes > 0);
  CHECK(client_bytes <= kMost);
  CHECK(server_bytes > 0);
  CHECK(server_bytes <= kMost);
}

}  // namespace
}  // namespace farcall::testing
