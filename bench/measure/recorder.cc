#include "farcall/bench/measure/recorder.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farcall/bench/measure/clock.h"

namespace farcall::bench {

Meters MetersOf(const Workload& workload, std::optional<pid_t> server) {
  Meters meters{.cpu = [server]() -> absl::StatusOr<uint64_t> {
    if (!server) return OwnCpuNs();
    const absl::StatusOr<uint64_t> server_ns = CpuNsOf(*server);
    if (!server_ns.ok()) return server_ns.status();
    return OwnCpuNs() + *server_ns;
  }};
  if (!workload.counted) return meters;
  std::vector<pid_t> processes = {::getpid()};
  if (server) processes.push_back(*server);
  absl::StatusOr<ProcessCounters> counters = ProcessCounters::Open(processes);
  if (counters.ok()) meters.counters = std::make_shared<ProcessCounters>(*std::move(counters));
  return meters;
}

absl::Status RunMetered(const Workload& workload, pid_t server, Measurement& measurement,
                        const std::function<absl::Status(uint64_t end_ns)>& run) {
  const Meters meters = MetersOf(workload, server);
  const absl::StatusOr<uint64_t> cpu_before_ns = meters.cpu();
  if (!cpu_before_ns.ok()) return cpu_before_ns.status();
  if (meters.counters) meters.counters->Start();
  const uint64_t start_ns = NowNs();
  absl::Status status = run(start_ns + static_cast<uint64_t>(workload.duration.count()));
  measurement.elapsed_ns = NowNs() - start_ns;
  if (meters.counters) meters.counters->Stop();
  if (!status.ok()) return status;
  const absl::StatusOr<uint64_t> cpu_ns = meters.cpu();
  if (!cpu_ns.ok()) return cpu_ns.status();
  measurement.cpu_ns = *cpu_ns - *cpu_before_ns;
  if (meters.counters) measurement.counts = meters.counters->Read();
  return absl::OkStatus();
}

Recorder::Recorder(const Workload& workload, Meters meters)
    : duration_ns_(static_cast<uint64_t>(workload.duration.count())),
      meters_(std::move(meters)),
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
  if (meters_.cpu == nullptr) return std::nullopt;
  const absl::StatusOr<uint64_t> cpu_ns = meters_.cpu();
  if (!cpu_ns.ok()) return cpu_ns.status();
  return *cpu_ns;
}

void Recorder::EndPhase() {
  if (phase_ == Phase::kMeasured && meters_.counters) meters_.counters->Stop();
  const absl::StatusOr<std::optional<uint64_t>> cpu_ns = CpuNs();
  if (!cpu_ns.ok()) return Stop(cpu_ns.status());
  if (phase_ == Phase::kWarmUp) {
    phase_ = Phase::kMeasured;
    start_cpu_ns_ = *cpu_ns;
    if (meters_.counters) meters_.counters->Start();  // in an emulated machine takes 0.1 s
    start_ns_ = NowNs();
    phase_end_ns_ = start_ns_ + duration_ns_;
  } else {
    phase_ = Phase::kOver;
    measurement_.elapsed_ns = NowNs() - start_ns_;
    if (*cpu_ns) measurement_.cpu_ns = **cpu_ns - *start_cpu_ns_;
    if (meters_.counters) measurement_.counts = meters_.counters->Read();
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
