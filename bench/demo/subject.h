// What the demo measures: one transport in one mode.
#ifndef FARCALL_BENCH_DEMO_SUBJECT_H_
#define FARCALL_BENCH_DEMO_SUBJECT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "farcall/bench/measure/record.h"
#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

class Subject {
 public:
  virtual ~Subject() = default;

  // As its records are named.
  virtual std::string transport() const = 0;  // "tcp", "shm", "floor/tcp", …
  virtual std::string device() const = 0;     // "kernel", "softnic", …
  virtual Mode mode() const = 0;
  // Payloads up to this size travel in the message, where that is not as by default.
  virtual std::optional<uint32_t> threshold() const { return std::nullopt; }
  // How the larger of request and reply travels: "eager", "rendezvous", "stream".
  virtual std::string path(const Workload& workload) const = 0;
  // Whether it can run `workload`; the others are passed over.
  virtual bool Knows(const Workload& workload) const {
    return workload.alone() && !IsOfVerbs(workload.kind);
  }

  // Runs the workload once on the calling thread, against a server of its own (a process pinned to
  // `server_core`, unless empty or in process), and leaves nothing running: whatever spins or wakes
  // up between two measurements would disturb the other subjects'. Bounded: a server that does not
  // start or does not answer is an error after a few seconds. Wrong replies are counted.
  virtual absl::StatusOr<Measurement> Run(const Workload& workload,
                                          std::optional<int> server_core) = 0;

  // Of Costs what its connections count, of both sides: on average over some hundreds of calls of a
  // latency workload, one at a time. Nothing where nothing counts.
  virtual absl::StatusOr<Costs> CountOperations(const Workload& /*workload*/,
                                                std::optional<int> /*server_core*/) {
    return Costs{};
  }
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_SUBJECT_H_
