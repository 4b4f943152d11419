#include "farcall/transports/loopback/network.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/loopback/accepting.h"
#include "farcall/transports/loopback/loopback.h"

namespace farcall {

std::shared_ptr<LoopbackNetwork> MakeLoopbackNetwork() {
  return std::make_shared<LoopbackNetwork>();
}

absl::Status LoopbackNetwork::Add(const std::string& name,
                                  std::shared_ptr<loopback::Accepting> accepting) {
  MutexLock lock(mutex_);
  if (!names_.emplace(name, std::move(accepting)).second) {
    return absl::UnavailableError(
        absl::StrCat("loopback://", name, ": another listener of this process has this name"));
  }
  return absl::OkStatus();
}

void LoopbackNetwork::Remove(const std::string& name, const loopback::Accepting* accepting) {
  MutexLock lock(mutex_);
  const auto found = names_.find(name);
  if (found != names_.end() && found->second.get() == accepting) names_.erase(found);
}

std::shared_ptr<loopback::Accepting> LoopbackNetwork::Find(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : found->second;
}

std::string LoopbackNetwork::NewClientAddress(const std::string& name) {
  return absl::StrCat("loopback://", name, "#", ++clients_);
}

}  // namespace farcall
