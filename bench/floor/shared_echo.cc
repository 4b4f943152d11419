#include "farcall/bench/floor/shared_echo.h"

#include <cstring>
#include <string>
#include <vector>

#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/recorder.h"

namespace farcall::bench {
namespace {

// One call at a time.
class SharedCalls {
 public:
  SharedCalls(SharedMemory& memory, const Workload& workload, std::chrono::seconds patience)
      : memory_(memory), patience_(patience) {
    const auto bytes = static_cast<uint32_t>(workload.bytes);
    header_ = {.body_bytes = bytes, .reply_bytes = bytes};
    FillPattern(memory_.Body(header_.body_bytes));
    reply_.resize(header_.reply_bytes);
  }

  // Makes calls until `end_ns`, one at least.
  absl::Status RunUntil(uint64_t end_ns, Measurement& measurement, bool compare_in_full = false) {
    uint64_t start_ns = NowNs();
    do {
      const Stamps stamps = StampsFor(++call_);
      SetStamps(memory_.Body(header_.body_bytes), stamps);
      memory_.Send(header_);
      const absl::StatusOr<FloorHeader> reply = memory_.Await(patience_);
      if (!reply.ok()) return reply.status();
      const bool whole = reply->body_bytes == header_.reply_bytes;
      if (whole) std::memcpy(reply_.data(), memory_.Received(*reply).data(), reply_.size());
      const uint64_t now_ns = NowNs();
      if (whole && StampsOf(reply_) == stamps && (!compare_in_full || HoldsPattern(reply_))) {
        measurement.latency.Record(now_ns - start_ns);
      } else if (measurement.errors++ == 0) {
        measurement.first_error = "reply " + std::to_string(call_) + " is not what was sent";
      }
      start_ns = now_ns;
    } while (start_ns < end_ns);
    return absl::OkStatus();
  }

 private:
  SharedMemory& memory_;
  const std::chrono::seconds patience_;
  FloorHeader header_{};
  std::vector<uint8_t> reply_;
  uint64_t call_ = 0;
};

}  // namespace

absl::Status ServeShared(SharedMemory& memory, std::chrono::seconds patience) {
  while (true) {
    const absl::StatusOr<FloorHeader> request = memory.Await(patience);
    if (absl::IsDeadlineExceeded(request.status())) return absl::OkStatus();
    if (!request.ok()) return request.status();
    const std::span<const uint8_t> body = memory.Received(*request);
    std::memcpy(memory.Body(body.size()).data(), body.data(), body.size());
    memory.Send({.body_bytes = request->body_bytes, .reply_bytes = request->body_bytes});
  }
}

absl::StatusOr<Measurement> RunShared(SharedMemory& memory, const Workload& workload, pid_t server,
                                      std::chrono::seconds patience) {
  if (workload.kind != Case::kLatency || workload.bytes < kMinFloorBodyBytes ||
      workload.bytes > kMaxFloorBodyBytes) {
    return absl::InvalidArgumentError("one echo at a time has 16 B to 64 MiB");
  }
  SharedCalls calls(memory, workload, patience);
  Measurement unrecorded;
  absl::Status status = calls.RunUntil(0, unrecorded, /*compare_in_full=*/true);
  if (status.ok()) {
    status = calls.RunUntil(NowNs() + static_cast<uint64_t>(workload.warm_up.count()), unrecorded);
  }
  if (!status.ok()) return status;

  Measurement measurement;
  status = RunMetered(workload, server, measurement,
                      [&](uint64_t end_ns) { return calls.RunUntil(end_ns, measurement); });
  if (!status.ok()) return status;

  status = calls.RunUntil(0, unrecorded, /*compare_in_full=*/true);
  if (!status.ok()) return status;
  measurement.errors += unrecorded.errors;
  if (measurement.first_error.empty()) measurement.first_error = unrecorded.first_error;
  return measurement;
}

}  // namespace farcall::bench
