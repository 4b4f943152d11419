#include "farcall/tests/faults/scene.h"

#include <signal.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "farcall/tests/services/journal.h"

namespace farcall::faults {

Folder::Folder() {
  std::string path = (std::filesystem::temp_directory_path() / "farcall-faults-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), path);
  }
  path_ = path;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::AddressFor(const std::string& scheme) const {
  if (scheme == "unix") return "unix://" + path_ + "/socket";
  if (scheme == "shm") return "shm://" + path_.substr(path_.rfind('/') + 1);
  return "tcp://127.0.0.1:0";
}

std::string Program(const std::string& name) {
  return std::string(FARCALL_TEST_PROGRAMS) + "/" + name;
}

ServerProcess::ServerProcess(Options options) {
  std::vector<std::string> command = std::move(options.by);
  // The shell is replaced by the server: the process is the same.
  for (const std::string& word :
       {std::string("/bin/sh"), std::string("-c"), R"(exec "$0" "$@" 2>)" + folder_ / "log",
        Program("faults_server"),
        options.address.empty() ? folder_.AddressFor(options.scheme) : options.address,
        folder_ / "journal", std::to_string(options.ping_ms)}) {
    command.push_back(word);
  }
  child_ = std::make_unique<testing::Child>(command);
  if (child_->address().empty())
    throw std::runtime_error("faults_server did not come up: " + Log());
}

Endpoint ServerProcess::endpoint() const { return ParseEndpoint(child_->address()).value(); }

std::set<uint64_t> ServerProcess::Ran() const { return testing::ReadJournal(folder_ / "journal"); }

std::string ServerProcess::Log() const {
  std::ifstream file(folder_ / "log");
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t ServerProcess::LogLines(const std::string& text) const {
  std::istringstream log(Log());
  size_t lines = 0;
  for (std::string line; std::getline(log, line);) lines += line.find(text) != std::string::npos;
  return lines;
}

void Signal(pid_t process, int signal) {
  if (process <= 0 || ::kill(process, signal) != 0) throw std::runtime_error("no such process");
}

}  // namespace farcall::faults
