#include "farcall/tests/faults/network.h"

#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>

namespace farcall::faults {
namespace {

constexpr char kFailingHere[] = "10.201.1.1";

void Run(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error(command);
}

// `command` in the network of the process `pid`.
std::string There(int pid, const std::string& command) {
  return "nsenter -t " + std::to_string(pid) + " -n " + command;
}

}  // namespace

bool Network::Enter(std::string& why) {
  static const int failed = ::unshare(CLONE_NEWNET) == 0 ? 0 : errno;
  if (failed != 0) {
    why = "no network namespace can be made: " + std::generic_category().message(failed) +
          " (run as root, in a container with CAP_SYS_ADMIN)";
  }
  return failed == 0;
}

Network::Network(int server) : server_(server) {
  const std::string pid = std::to_string(server);
  for (const auto& [name, net] : {std::pair("f", "10.201.1."), std::pair("s", "10.201.2.")}) {
    const std::string here = std::string(name) + "here" + pid, there = std::string(name) + "there";
    Run("ip link add " + here + " type veth peer name " + there + " netns " + pid);
    Run("ip addr add " + std::string(net) + "1/24 dev " + here);
    Run("ip link set " + here + " up");
    Run(There(server, "ip addr add " + std::string(net) + "2/24 dev " + there));
    Run(There(server, "ip link set " + there + " up"));
  }
}

// A namespace goes some time after its last process, and keeps the addresses of this end so long.
Network::~Network() {
  for (const char* name : {"fhere", "shere"}) {
    [[maybe_unused]] const int deleted =
        std::system(("ip link delete " + (name + std::to_string(server_))).c_str());
  }
}

// A frame for a machine that is not there is lost without a sound, as on a cable that is cut
// somewhere. What the sender knows of its neighbour is all that decides it.
void Network::Lose(Way way) {
  constexpr char kNobody[] = "02:00:00:00:00:99";
  const std::string here = "fhere" + std::to_string(server_);
  if (way == Way::kRequests) {
    Run("ip neigh replace " + std::string(kFailing) + " lladdr " + kNobody + " dev " + here);
  } else {
    Run(There(server_, "ip neigh replace " + std::string(kFailingHere) + " lladdr " + kNobody +
                           " dev fthere"));
  }
}

void Network::Heal() {
  const std::string here = "fhere" + std::to_string(server_);
  Run("ip neigh flush dev " + here + " nud permanent");
  Run(There(server_, "ip neigh flush dev fthere nud permanent"));
}

}  // namespace farcall::faults
