// The caller's side: which of the paths that a server offers are tried, and in which order.

#ifndef FARCALL_TRANSPORTS_AUTO_SELECTOR_H_
#define FARCALL_TRANSPORTS_AUTO_SELECTOR_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farcall/rpc/path.h"
#include "farcall/rpc/transport.h"

namespace farcall::paths {

// A way beside TCP; its name is the scheme of its addresses.
struct Member {
  std::string name;
  std::shared_ptr<Transport> transport;  // nullptr: left out by this side's options
};

class Selector final : public PathSelector {
 public:
  // The best member first.
  explicit Selector(std::vector<Member> members) : members_(std::move(members)) {}

  std::vector<PathCandidate> Select(const std::vector<PathOffer>& offers) override;

 private:
  const std::vector<Member> members_;
};

}  // namespace farcall::paths

#endif  // FARCALL_TRANSPORTS_AUTO_SELECTOR_H_
