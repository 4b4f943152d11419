// What a small call on a warm channel costs, counted from outside of both processes: heap
// allocations by a preloaded malloc (malloc_count.cc), system calls by strace; and what an idle
// connection costs, by the resident size.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
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
  const std::string scheme = GENERATE("tcp", "unix");
  const Folder folder;
  const std::string preload = "LD_PRELOAD=" FARCALL_MALLOC_COUNT_LIBRARY;
  const auto counting = [&](const std::string& who) {
    return std::vector<std::string>{"/usr/bin/env", preload,
                                    "FARCALL_MALLOC_COUNT=" + folder.File(who)};
  };
  std::vector<std::string> command = counting("server");
  command.insert(
      command.end(),
      {kPrograms + "/farcall_echo_server",
       scheme == "tcp" ? "tcp://127.0.0.1:0" : "unix://" + folder.File("socket"), "--mode", mode});
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
  int64_t all = 0;
  int64_t failed = 0;
  int64_t useful() const { return all - failed; }
};
using Profile = std::map<std::string, Calls>;

// The summary of `strace -c`: "% time, seconds, usecs/call, calls, errors, syscall", the errors
// left blank when there were none.
Profile ReadProfile(const std::string& path) {
  Profile profile;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    if (fields.size() < 5 || fields.front().find_first_not_of("0123456789.") != std::string::npos) {
      continue;
    }
    Calls& calls = profile[fields.back()];
    calls.all = std::strtoll(fields[3].c_str(), nullptr, 10);
    if (fields.size() == 6) calls.failed = std::strtoll(fields[4].c_str(), nullptr, 10);
  }
  return profile;
}

// The tracer writes when the traced process is gone.
Profile WaitForProfile(const std::string& path) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end) {
    Profile profile = ReadProfile(path);
    if (profile.contains("total")) return profile;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return {};
}

struct Profiles {
  Profile client;
  Profile server;
};

Profiles Trace(const std::string& mode, size_t calls) {
  const Folder folder;
  Profiles profiles;
  {
    // -D: the process that is started is the server, the tracer its grandchild.
    Child server({"/usr/bin/strace", "-D", "-f", "-c", "-o", folder.File("server"),
                  kPrograms + "/farcall_echo_server", "tcp://127.0.0.1:0", "--mode", mode});
    REQUIRE_FALSE(server.address().empty());
    Output("strace -f -c -o " + folder.File("client") + " " +
           Client(server.address(), mode, "block", calls));
    server.End(SIGTERM);
  }
  profiles.client = WaitForProfile(folder.File("client"));
  profiles.server = WaitForProfile(folder.File("server"));
  return profiles;
}

// How many more useful calls of `names` the second made.
int64_t Rise(const Profile& before, const Profile& after, const std::vector<std::string>& names) {
  int64_t rise = 0;
  for (const std::string& name : names) {
    if (const auto found = after.find(name); found != after.end()) rise += found->second.useful();
    if (const auto found = before.find(name); found != before.end()) rise -= found->second.useful();
  }
  return rise;
}

std::string Describe(const Profile& before, const Profile& after) {
  std::string text;
  for (const auto& [name, calls] : after) {
    if (const int64_t rise = Rise(before, after, {name}); rise != 0) {
      text += name + " " + std::to_string(rise) + "; ";
    }
  }
  return text;
}

const std::vector<std::string> kSends = {"sendto", "sendmsg", "write", "writev"};
const std::vector<std::string> kReceives = {"recvfrom", "recvmsg", "read", "readv"};

// What a process does before and after its calls differs a little from run to run, and a thread
// that sleeps looks around now and then: far less than one in each of a thousand calls.
constexpr int64_t kSlack = 20;

TEST_CASE("a steady blocking call is one send and one receive a side") {
  if (Output("strace -f -c -o /dev/null true; echo traced").find("traced") == std::string::npos ||
      ::system("strace -o /dev/null true 2>/dev/null") != 0) {
    WARN("strace cannot trace here: system calls were not counted");
    return;
  }
  const std::string mode = GENERATE("busy", "event");
  const Profiles few = Trace(mode, 200);
  const Profiles many = Trace(mode, 1200);
  REQUIRE(many.client.contains("total"));
  REQUIRE(many.server.contains("total"));
  INFO(mode << ", 1000 calls. Client: " << Describe(few.client, many.client)
            << " Server: " << Describe(few.server, many.server));
  for (Profile Profiles::*side : {&Profiles::client, &Profiles::server}) {
    CHECK(Rise(few.*side, many.*side, kSends) >= 1000 - kSlack);  // else nothing was counted
    CHECK(Rise(few.*side, many.*side, kSends) <= 1000 + kSlack);
    CHECK(Rise(few.*side, many.*side, kReceives) <= 1000 + kSlack);
  }
  CHECK(Rise(few.client, many.client, {"futex"}) <= kSlack);
  CHECK(Rise(few.server, many.server, {"futex"}) <= kSlack);
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

}  // namespace
}  // namespace farcall::testing
