// What the tests of this room have in common: a server in a process of its own, and a folder.

#ifndef FARCALL_TESTS_FAULTS_SCENE_H_
#define FARCALL_TESTS_FAULTS_SCENE_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "farcall/rpc/channel.h"
#include "farcall/rpc/endpoint.h"
#include "farcall/tests/services/child.h"

namespace farcall::faults {

// A folder for a test's files and sockets, removed with all that is in it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Where a server may listen: a free port of this host, or a socket in this folder.
  std::string AddressFor(const std::string& scheme) const;

 private:
  std::string path_;
};

// Where this build's programs for this room are.
std::string Program(const std::string& name);

// faults_server in a process of its own.
class ServerProcess {
 public:
  struct Options {
    std::string address = {};  // empty: of `scheme`
    std::string scheme = "tcp";
    int ping_ms = 0;                   // see server.cc
    std::vector<std::string> by = {};  // a command that runs it
  };
  explicit ServerProcess(Options options);

  int pid() const { return child_->pid(); }
  testing::Child& child() { return *child_; }
  // Where it listens.
  Endpoint endpoint() const;
  std::string address() const { return child_->address(); }
  std::set<uint64_t> Ran() const;  // numbers of Journal
  std::string Log() const;         // all that it said on its standard error
  // How many lines of it contain `text`.
  size_t LogLines(const std::string& text) const;

 private:
  Folder folder_;
  std::unique_ptr<testing::Child> child_;
};

// Sends a signal to a process of the test's, now; throws when there is none.
void Signal(pid_t process, int signal);

}  // namespace farcall::faults

#endif  // FARCALL_TESTS_FAULTS_SCENE_H_
