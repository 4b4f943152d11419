// The floors as subjects: plain TCP sockets, and shared memory, between two processes.
#ifndef FARCALL_BENCH_DEMO_FLOOR_SUBJECT_H_
#define FARCALL_BENCH_DEMO_FLOOR_SUBJECT_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "farcall/bench/demo/subject.h"

namespace farcall::bench {

// Plain TCP sockets.
class TcpFloorSubject : public Subject {
 public:
  // `server_program` is the path of farcall_floor_server.
  TcpFloorSubject(std::string server_program, Mode mode)
      : server_program_(std::move(server_program)), mode_(mode) {}

  std::string transport() const override { return "floor/tcp"; }
  std::string device() const override { return "kernel"; }
  Mode mode() const override { return mode_; }
  std::string path(const Workload& /*workload*/) const override { return "stream"; }

  absl::StatusOr<Measurement> Run(const Workload& workload,
                                  std::optional<int> server_core) override;

 private:
  const std::string server_program_;
  const Mode mode_;
};

// A cache line each way, and one memcpy where a body does not fit: one echo at a time, or as many
// bulk bodies as are outstanding, each with buffers of its own on both sides.
class ShmFloorSubject : public Subject {
 public:
  // As TcpFloorSubject.
  explicit ShmFloorSubject(std::string server_program)
      : server_program_(std::move(server_program)) {}

  std::string transport() const override { return "floor/shm"; }
  std::string device() const override { return "memory"; }
  Mode mode() const override { return Mode::kBusy; }
  std::string path(const Workload& workload) const override;
  bool Knows(const Workload& workload) const override {
    return workload.alone() && workload.kind != Case::kThroughput;
  }

  absl::StatusOr<Measurement> Run(const Workload& workload,
                                  std::optional<int> server_core) override;

 private:
  const std::string server_program_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_FLOOR_SUBJECT_H_
