// Farcall as a subject: calls of the Echo service, as any client makes them.
#ifndef FARCALL_BENCH_DEMO_FARCALL_SUBJECT_H_
#define FARCALL_BENCH_DEMO_FARCALL_SUBJECT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "farcall/bench/demo/subject.h"

namespace farcall::bench {

// Between two processes, over TCP or over the software NIC in shared memory.
class ProcessSubject : public Subject {
 public:
  enum class Scheme { kTcp, kShm };

  // `server_program` is the path of farcall_echo_server.
  // Shared memory alone: `threshold`, unless empty, is where its payloads' way is forced to change.
  ProcessSubject(std::string server_program, Scheme scheme, Mode mode,
                 std::optional<uint32_t> threshold = std::nullopt)
      : server_program_(std::move(server_program)),
        scheme_(scheme),
        mode_(mode),
        threshold_(threshold) {}

  std::string transport() const override { return scheme_ == Scheme::kTcp ? "tcp" : "shm"; }
  std::string device() const override { return scheme_ == Scheme::kTcp ? "kernel" : "softnic"; }
  Mode mode() const override { return mode_; }
  std::optional<uint32_t> threshold() const override { return threshold_; }
  std::string path(const Workload& workload) const override;
  bool Knows(const Workload& /*workload*/) const override { return true; }

  absl::StatusOr<Measurement> Run(const Workload& workload,
                                  std::optional<int> server_core) override;
  absl::StatusOr<Costs> CountOperations(const Workload& workload,
                                        std::optional<int> server_core) override;

 private:
  std::string Address() const;

  const std::string server_program_;
  const Scheme scheme_;
  const Mode mode_;
  const std::optional<uint32_t> threshold_;
};

// With no wire, between two threads of this process: messages mostly change hands by pointer. What
// is left is the cost of Farcall itself and of waking the other thread.
class LoopbackSubject : public Subject {
 public:
  explicit LoopbackSubject(Mode mode) : mode_(mode) {}

  std::string transport() const override { return "loopback"; }
  std::string device() const override { return "memory"; }
  Mode mode() const override { return mode_; }
  std::string path(const Workload& /*workload*/) const override { return "eager"; }

  absl::StatusOr<Measurement> Run(const Workload& workload,
                                  std::optional<int> server_core) override;
  absl::StatusOr<Costs> CountOperations(const Workload& workload,
                                        std::optional<int> server_core) override;

 private:
  const Mode mode_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_FARCALL_SUBJECT_H_
