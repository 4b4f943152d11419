// The floor as a subject: plain TCP sockets between two processes.
#ifndef FARCALL_BENCH_DEMO_FLOOR_SUBJECT_H_
#define FARCALL_BENCH_DEMO_FLOOR_SUBJECT_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "farcall/bench/demo/subject.h"

namespace farcall::bench {

inline constexpr char kFloorTransport[] = "floor/tcp";

class FloorSubject : public Subject {
 public:
  // `server_program` is the path of farcall_floor_server.
  FloorSubject(std::string server_program, Mode mode)
      : server_program_(std::move(server_program)), mode_(mode) {}

  std::string transport() const override { return kFloorTransport; }
  std::string device() const override { return "kernel"; }
  Mode mode() const override { return mode_; }
  std::string path() const override { return "stream"; }

  absl::StatusOr<Measurement> Run(const Workload& workload,
                                  std::optional<int> server_core) override;

 private:
  const std::string server_program_;
  const Mode mode_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_FLOOR_SUBJECT_H_
