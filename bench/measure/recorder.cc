#include "farcall/bench/measure/recorder.h"

#include <string>
#include <utility>

#include "farcall/bench/measure/clock.h"

namespace farcall::bench {

CpuMeter CpuOfThisAnd(pid_t server) {
  return [server]() -> absl::StatusOr<uint64_t> {
    const absl::StatusOr<uint64_t> server_ns = CpuNsOf(server);
    if (!server_ns.ok()) return server_ns.status();
    return OwnCpuNs() + *server_ns;
  };
}

Recorder::Recorder(const Workload& workload, CpuMeter cpu)
    : duration_ns_(static_cast<uint64_t>(workload.duration.count())),
      cpu_(std::move(cpu)),
      phase_end_ns_(NowNs() + static_cast<uint64_t>(workload.warm_up.count())) {}

bool Recorder::Take(uint64_t started_ns, uint64_t now_ns, const absl::Status& outcome) {
  if (phase_ == Phase::kOver) {  // one that was still under way
    if (!outcome.ok()) CountError(outcome);
    return false;
  }
  if (!outcome.ok()) {
    CountError(outcome);
  } else if (phase_ == Phase::kMeasured) {
    measurement_.latency.Record(now_ns - started_ns);
  }
  if (phase_ != Phase::kOver && now_ns >= phase_end_ns_) EndPhase();
  return phase_ != Phase::kOver;
}

absl::StatusOr<Measurement> Recorder::Result() && {
  if (!status_.ok()) return status_;
  return std::move(measurement_);
}

absl::StatusOr<std::optional<uint64_t>> Recorder::CpuNs() const {
  if (cpu_ == nullptr) return std::nullopt;
  const absl::StatusOr<uint64_t> cpu_ns = cpu_();
  if (!cpu_ns.ok()) return cpu_ns.status();
  return *cpu_ns;
}

void Recorder::EndPhase() {
  const absl::StatusOr<std::optional<uint64_t>> cpu_ns = CpuNs();
  if (!cpu_ns.ok()) return Stop(cpu_ns.status());
  const uint64_t now_ns = NowNs();
  if (phase_ == Phase::kWarmUp) {
    phase_ = Phase::kMeasured;
    start_ns_ = now_ns;
    start_cpu_ns_ = *cpu_ns;
    phase_end_ns_ = now_ns + duration_ns_;
  } else {
    phase_ = Phase::kOver;
    measurement_.elapsed_ns = now_ns - start_ns_;
    if (*cpu_ns) measurement_.cpu_ns = **cpu_ns - *start_cpu_ns_;
  }
}

void Recorder::CountError(const absl::Status& outcome) {
  if (!absl::IsDataLoss(outcome)) return Stop(outcome);
  if (measurement_.errors++ == 0) measurement_.first_error = std::string(outcome.message());
}

void Recorder::Stop(const absl::Status& status) {
  if (status_.ok()) status_ = status;
  phase_ = Phase::kOver;
}

}  // namespace farcall::bench
