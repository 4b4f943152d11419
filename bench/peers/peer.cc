#include "farcall/bench/peers/peer.h"

#include <utility>

#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/payload.h"

namespace farcall::bench {
namespace {

// The call of number `slot` modulo the number of slots is of that slot, and its first is not 0.
uint64_t FirstNumber(const PeerSizes& sizes, size_t slot) { return sizes.outstanding + slot; }
bool IsFirst(const PeerSizes& sizes, uint64_t number) { return number < 2 * sizes.outstanding; }

void WriteBody(const PeerSizes& sizes, const Stamps& stamps, std::span<uint8_t> body) {
  if (IsFirst(sizes, stamps.first)) FillPattern(body);
  SetStamps(body, stamps);
}

}  // namespace

PeerSizes::PeerSizes(const Workload& workload)
    : outstanding(static_cast<size_t>(workload.outstanding)),
      request_bytes(workload.kind == Case::kBulkReply ? kMinPayloadBytes : workload.bytes),
      reply_bytes(workload.kind == Case::kBulkRequest ? kMinPayloadBytes : workload.bytes),
      echo(workload.kind == Case::kLatency || workload.kind == Case::kThroughput) {}

absl::Status PeerAnswers::Write(std::span<const uint8_t> request, std::span<uint8_t> reply) const {
  if (request.size() != sizes_.request_bytes || reply.size() != sizes_.reply_bytes) {
    return absl::InvalidArgumentError("a request of " + std::to_string(request.size()) +
                                      " bytes, where they have " +
                                      std::to_string(sizes_.request_bytes));
  }
  WriteBody(sizes_, StampsOf(request), reply);
  return absl::OkStatus();
}

PeerCalls::PeerCalls(const Workload& workload, pid_t server)
    : workload_(workload),
      server_(server),
      sizes_(workload),
      number_(sizes_.outstanding),
      started_ns_(sizes_.outstanding),
      now_ns_(NowNs()) {}

void PeerCalls::Begin(size_t slot, std::span<uint8_t> request) {
  uint64_t& number = number_[slot];
  number = number == 0 ? FirstNumber(sizes_, slot) : number + sizes_.outstanding;
  started_ns_[slot] = now_ns_;
  WriteBody(sizes_, StampsFor(number), request);
}

bool PeerCalls::End(size_t slot, std::span<const uint8_t> reply) {
  now_ns_ = NowNs();
  const uint64_t number = number_[slot];
  const bool right = reply.size() == sizes_.reply_bytes && StampsOf(reply) == StampsFor(number) &&
                     (!IsFirst(sizes_, number) || HoldsPattern(reply));
  absl::Status outcome;
  if (!right) {
    outcome = absl::DataLossError("reply " + std::to_string(number) + " of " +
                                  std::to_string(reply.size()) + " bytes is not what was sent");
  }
  if (recorder_) return recorder_->Take(started_ns_[slot], now_ns_, outcome);
  if (!right && wrong_++ == 0) first_wrong_ = std::string(outcome.message());
  if (IsFirst(sizes_, number) && ++compared_ == sizes_.outstanding) {
    recorder_.emplace(workload_, MetersOf(workload_, server_));
    now_ns_ = NowNs();
  }
  return true;
}

absl::StatusOr<size_t> PeerCalls::SlotOf(std::span<const uint8_t> reply) const {
  if (reply.size() == sizes_.reply_bytes) {
    const uint64_t number = StampsOf(reply).first;
    const size_t slot = number % sizes_.outstanding;
    if (number_[slot] == number) return slot;
  }
  return absl::InternalError("a reply of " + std::to_string(reply.size()) +
                             " bytes to a call that was not made");
}

absl::StatusOr<Measurement> PeerCalls::Result() && {
  if (!recorder_) return absl::InternalError("not all first calls ended");
  absl::StatusOr<Measurement> measurement = std::move(*recorder_).Result();
  if (!measurement.ok()) return measurement;
  measurement->errors += wrong_;
  if (measurement->first_error.empty()) measurement->first_error = first_wrong_;
  return measurement;
}

}  // namespace farcall::bench
