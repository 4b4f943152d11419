// Peers as subjects: what one would use instead, in programs of their own (bench/peers).
#ifndef FARCALL_BENCH_DEMO_PEER_SUBJECT_H_
#define FARCALL_BENCH_DEMO_PEER_SUBJECT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "farcall/bench/demo/subject.h"
#include "farcall/bench/measure/record.h"

namespace farcall::bench {

// A library in one of its variants, and how its records are named.
struct PeerName {
  const char* transport;
  const char* device;
  Mode mode;
  const char* program;   // beside the demo
  const char* variant;   // its argument
  const char* packages;  // without which it is not built
};

// A process for each side; the client's has the core of the calling thread.
class PeerSubject : public Subject {
 public:
  // `folder`: that of the programs.
  PeerSubject(const PeerName& name, const std::string& folder)
      : name_(name), program_(folder + "/" + name.program) {}

  std::string transport() const override { return name_.transport; }
  std::string device() const override { return name_.device; }
  Mode mode() const override { return name_.mode; }
  std::string path(const Workload& workload) const override;

  absl::StatusOr<Measurement> Run(const Workload& workload,
                                  std::optional<int> server_core) override;

  // Its version and its settings, as its program says them. NOT_FOUND: there is no such program.
  absl::StatusOr<std::string> About() const;

 private:
  const PeerName name_;
  const std::string program_;
};

struct PeersHere {
  std::vector<std::unique_ptr<Subject>> subjects;
  Facts about;                        // by transport
  std::vector<std::string> left_out;  // a line each, with the remedy
};

// Those whose programs are in `folder` and can make a call; a fraction of a second for each. The
// server of that call is pinned to `server_core`.
PeersHere FindPeers(const std::string& folder, std::optional<int> server_core);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_PEER_SUBJECT_H_
