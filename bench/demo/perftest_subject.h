// perftest as a subject: the floor of an RDMA adapter.
#ifndef FARCALL_BENCH_DEMO_PERFTEST_SUBJECT_H_
#define FARCALL_BENCH_DEMO_PERFTEST_SUBJECT_H_

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "farcall/bench/demo/subject.h"

namespace farcall::bench {

// Both sides are processes of the host's one adapter, joined by rdma_cm, and spin. Runs
// tests/guest/checks/perftest.sh, which is on the guest's PATH.
class PerftestSubject : public Subject {
 public:
  explicit PerftestSubject(std::string device) : device_(std::move(device)) {}

  std::string transport() const override { return "floor/verbs"; }
  std::string device() const override { return device_; }
  Mode mode() const override { return Mode::kBusy; }
  std::string path(const Workload& workload) const override {
    return workload.kind == Case::kSendLat ? "eager" : "rendezvous";
  }
  bool Knows(const Workload& workload) const override {
    return IsOfVerbs(workload.kind) && !left_out_.contains(workload.kind);
  }
  // It does not know this one any more.
  void LeaveOut(Case kind) { left_out_.insert(kind); }

  absl::StatusOr<Measurement> Run(const Workload& workload,
                                  std::optional<int> server_core) override;

 private:
  const std::string device_;
  std::set<Case> left_out_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_PERFTEST_SUBJECT_H_
