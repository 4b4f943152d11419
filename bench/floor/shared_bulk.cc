#include "farcall/bench/floor/shared_bulk.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/recorder.h"

namespace farcall::bench {
namespace {

// A body larger than its stamps lies in its slot.
bool InSlot(size_t bytes) { return bytes > kMinFloorBodyBytes; }

// A body for each slot in memory of this process.
class OwnBodies {
 public:
  explicit OwnBodies(const SharedSlots::Shape& shape) : bodies_(shape.slots) {}

  // Copies a body there.
  std::span<const uint8_t> Take(uint64_t call, std::span<const uint8_t> body) {
    std::vector<uint8_t>& own = bodies_[call % bodies_.size()];
    if (own.size() != body.size()) own.resize(body.size());
    std::memcpy(own.data(), body.data(), body.size());
    return own;
  }

 private:
  std::vector<std::vector<uint8_t>> bodies_;
};

// The client's calls, answered in order.
class BulkCalls {
 public:
  BulkCalls(SharedSlots& slots, const Workload& workload, std::chrono::seconds patience)
      : slots_(slots),
        patience_(patience),
        started_at_ns_(slots.shape().slots),
        replies_(slots.shape()) {
    const auto bytes = static_cast<uint32_t>(workload.bytes);
    const auto least = static_cast<uint32_t>(kMinFloorBodyBytes);
    header_ = {.body_bytes = workload.kind == Case::kBulkReply ? least : bytes,
               .reply_bytes = workload.kind == Case::kBulkRequest ? least : bytes};
    for (uint64_t slot = 0; InSlot(header_.body_bytes) && slot < slots_.shape().slots; ++slot) {
      FillPattern(slots_.Body(slot, header_.body_bytes));
    }
  }

  // Keeps all slots busy while `ended(started_ns, now_ns, outcome)` says so, and returns when no
  // call is under way.
  template <class Ended>
  absl::Status Run(bool compare_in_full, Ended ended) {
    for (size_t i = 0; i < slots_.shape().slots; ++i) Start(NowNs());
    for (bool more = true; due_ != next_; ++due_) {
      const absl::StatusOr<SharedSlots::Word> word = slots_.AwaitReply(due_, patience_);
      if (!word.ok()) return word.status();
      const absl::Status outcome = Take(*word, compare_in_full);
      const uint64_t now_ns = NowNs();
      more = ended(started_at_ns_[due_ % started_at_ns_.size()], now_ns, outcome) && more;
      if (more) Start(now_ns);
    }
    return absl::OkStatus();
  }

 private:
  void Start(uint64_t now_ns) {
    const uint64_t call = next_++;
    const Stamps stamps = StampsFor(call);
    if (InSlot(header_.body_bytes)) SetStamps(slots_.Body(call, header_.body_bytes), stamps);
    started_at_ns_[call % started_at_ns_.size()] = now_ns;
    slots_.SendRequest(call, {header_, stamps});
  }

  // The reply to call `due_`.
  absl::Status Take(const SharedSlots::Word& word, bool compare_in_full) {
    const size_t bytes = word.header.body_bytes;
    bool right = bytes == header_.reply_bytes;
    if (right && InSlot(bytes)) {
      const std::span<const uint8_t> reply = replies_.Take(due_, slots_.Body(due_, bytes));
      right = StampsOf(reply) == StampsFor(due_) && (!compare_in_full || HoldsPattern(reply));
    } else {
      right = right && word.stamps == StampsFor(due_);
    }
    if (right) return absl::OkStatus();
    return absl::DataLossError("reply " + std::to_string(due_) + " is not what was sent");
  }

  SharedSlots& slots_;
  const std::chrono::seconds patience_;
  FloorHeader header_{};
  std::vector<uint64_t> started_at_ns_;  // by slot
  OwnBodies replies_;
  uint64_t next_ = 1;  // call to start
  uint64_t due_ = 1;   // call to be answered
};

}  // namespace

absl::Status ServeBulk(SharedSlots& slots, std::chrono::seconds patience) {
  OwnBodies requests(slots.shape());
  std::vector<uint8_t> store;  // what large replies are written from
  for (uint64_t call = 1;; ++call) {
    const absl::StatusOr<SharedSlots::Word> request = slots.AwaitRequest(call, patience);
    if (absl::IsDeadlineExceeded(request.status())) return absl::OkStatus();
    if (!request.ok()) return request.status();
    const auto [bytes, reply_bytes] = request->header;
    Stamps stamps = request->stamps;
    if (InSlot(bytes)) stamps = StampsOf(requests.Take(call, slots.Body(call, bytes)));
    if (InSlot(reply_bytes)) {
      if (store.size() != reply_bytes) {
        store.resize(reply_bytes);
        FillPattern(store);
      }
      const std::span<uint8_t> reply = slots.Body(call, reply_bytes);
      std::memcpy(reply.data(), store.data(), reply_bytes);
      SetStamps(reply, stamps);
    }
    slots.SendReply(call, {{.body_bytes = reply_bytes, .reply_bytes = reply_bytes}, stamps});
  }
}

absl::StatusOr<Measurement> RunBulk(SharedSlots& slots, const Workload& workload, pid_t server,
                                    std::chrono::seconds patience) {
  if (workload.bytes < kMinFloorBodyBytes || workload.bytes > slots.shape().body_bytes) {
    return absl::InvalidArgumentError("bodies of " + std::to_string(workload.bytes) +
                                      " bytes have no room in the slots");
  }
  BulkCalls calls(slots, workload, patience);
  uint64_t wrong = 0;
  std::string first_wrong;
  const auto compare = [&] {
    return calls.Run(/*compare_in_full=*/true, [&](uint64_t, uint64_t, const absl::Status& call) {
      if (!call.ok() && wrong++ == 0) first_wrong = std::string(call.message());
      return false;
    });
  };
  absl::Status status = compare();
  if (!status.ok()) return status;
  Recorder recorder(workload, MetersOf(workload, server));
  status = calls.Run(/*compare_in_full=*/false,
                     [&](uint64_t started_ns, uint64_t now_ns, const absl::Status& outcome) {
                       return recorder.Take(started_ns, now_ns, outcome);
                     });
  if (status.ok()) status = compare();
  if (!status.ok()) return status;
  absl::StatusOr<Measurement> measurement = std::move(recorder).Result();
  if (!measurement.ok()) return measurement;
  measurement->errors += wrong;
  if (measurement->first_error.empty()) measurement->first_error = first_wrong;
  return measurement;
}

}  // namespace farcall::bench
