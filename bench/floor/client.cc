#include "farcall/bench/floor/client.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "farcall/bench/floor/message.h"
#include "farcall/bench/measure/clock.h"
#include "farcall/bench/measure/recorder.h"

namespace farcall::bench {
namespace {

// Requests are collected up to this size for one write.
constexpr size_t kMaxBatchBytes = 64 * 1024;

struct Sizes {
  uint32_t request_bytes;
  uint32_t reply_bytes;
};

Sizes SizesFor(const Workload& workload) {
  const auto bytes = static_cast<uint32_t>(workload.bytes);
  const auto least = static_cast<uint32_t>(kMinFloorBodyBytes);
  if (workload.kind == Case::kBulkRequest) return {bytes, least};
  if (workload.kind == Case::kBulkReply) return {least, bytes};
  return {bytes, bytes};
}

// A window of calls on one connection, answered in order.
class Window {
 public:
  Window(Stream& stream, MessageReader& reader, uint64_t first_call, const Workload& workload)
      : stream_(stream),
        reader_(reader),
        sizes_(SizesFor(workload)),
        size_(static_cast<size_t>(workload.outstanding)),
        sent_at_ns_(size_),
        request_bytes_(FloorMessage::SizeFor(sizes_.request_bytes)),
        requests_(request_bytes_ * std::clamp<size_t>(kMaxBatchBytes / request_bytes_, 1, size_)),
        next_call_(first_call),
        next_reply_(first_call) {
    for (size_t at = 0; at < requests_.size(); at += request_bytes_) {
      FloorMessage request{std::span(requests_).subspan(at, request_bytes_)};
      request.set_header({.body_bytes = sizes_.request_bytes, .reply_bytes = sizes_.reply_bytes});
      FillPattern(request.body());
    }
  }

  uint64_t next_call() const { return next_call_; }

  // Keeps the window full until `end_ns`, and leaves it full.
  absl::Status RunUntil(uint64_t end_ns, Measurement& measurement) {
    while (now_ns_ < end_ns) {
      absl::Status status = SendFreeCalls();
      if (status.ok()) status = ReceiveSome(measurement);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Receives what is outstanding, and compares these replies in full.
  absl::Status Drain(Measurement& measurement) {
    compare_in_full_ = true;
    while (next_reply_ < next_call_) {
      absl::Status status = ReceiveSome(measurement);
      if (!status.ok()) return status;
    }
    compare_in_full_ = false;
    return absl::OkStatus();
  }

  // One window of calls whose replies are compared in full.
  absl::Status RunChecked(Measurement& measurement) {
    const absl::Status status = SendFreeCalls();
    return status.ok() ? Drain(measurement) : status;
  }

 private:
  // As many requests a write as are free and fit.
  absl::Status SendFreeCalls() {
    while (next_call_ - next_reply_ < size_) {
      const size_t free = size_ - (next_call_ - next_reply_);
      const size_t batch = std::min(free, requests_.size() / request_bytes_);
      now_ns_ = NowNs();
      for (size_t i = 0; i < batch; ++i, ++next_call_) {
        SetStamps(
            FloorMessage(std::span(requests_).subspan(i * request_bytes_, request_bytes_)).body(),
            StampsFor(next_call_));
        sent_at_ns_[next_call_ % size_] = now_ns_;
      }
      absl::Status sent = stream_.Write(std::span(requests_).first(batch * request_bytes_));
      if (!sent.ok()) return sent;
    }
    return absl::OkStatus();
  }

  // Waits for at least one reply and takes all that are there.
  absl::Status ReceiveSome(Measurement& measurement) {
    const uint64_t first = next_reply_;
    while (true) {
      const absl::StatusOr<std::optional<FloorMessage>> reply = reader_.Next();
      if (!reply.ok()) return reply.status();
      if (*reply) {
        if (next_reply_ == first) now_ns_ = NowNs();
        if (next_reply_ == next_call_) return absl::InternalError("a reply that nobody asked for");
        Take(**reply, measurement);
        continue;
      }
      if (next_reply_ != first) return absl::OkStatus();
      absl::Status filled = reader_.Fill(stream_);
      if (absl::IsOutOfRange(filled)) {
        return absl::UnavailableError("the floor's server closed the connection");
      }
      if (!filled.ok()) return filled;
    }
  }

  void Take(FloorMessage reply, Measurement& measurement) {
    const uint64_t call = next_reply_++;
    const bool right = reply.body().size() == sizes_.reply_bytes &&
                       StampsOf(reply.body()) == StampsFor(call) &&
                       (!compare_in_full_ || HoldsPattern(reply.body()));
    if (right) {
      measurement.latency.Record(now_ns_ - sent_at_ns_[call % size_]);
    } else if (measurement.errors++ == 0) {
      measurement.first_error =
          "reply " + std::to_string(call) + " of " + std::to_string(reply.body().size()) +
          " bytes, where " + std::to_string(sizes_.reply_bytes) + " were due, is not what was sent";
    }
  }

  Stream& stream_;
  MessageReader& reader_;
  const Sizes sizes_;
  const size_t size_;                 // calls that may be outstanding
  std::vector<uint64_t> sent_at_ns_;  // by call % size_
  const size_t request_bytes_;        // header and body
  std::vector<uint8_t> requests_;     // a batch, all but the stamps written once
  uint64_t next_call_;
  uint64_t next_reply_;
  uint64_t now_ns_ = NowNs();
  bool compare_in_full_ = false;
};

}  // namespace

absl::StatusOr<FloorClient> FloorClient::Connect(uint16_t port, Mode mode,
                                                 std::chrono::seconds patience) {
  absl::StatusOr<Stream> stream = Stream::Connect(port, mode, patience);
  if (!stream.ok()) return stream.status();
  return FloorClient(*std::move(stream));
}

absl::StatusOr<Measurement> FloorClient::Run(const Workload& workload, pid_t server) {
  if (workload.bytes < kMinFloorBodyBytes || workload.bytes > kMaxFloorBodyBytes ||
      workload.outstanding < 1) {
    return absl::InvalidArgumentError("the floor moves bodies of 16 B to 64 MiB, one at least");
  }
  const bool small_reply_differs =
      workload.kind == Case::kBulkRequest || workload.kind == Case::kBulkReply;
  if (small_reply_differs && workload.bytes == kMinFloorBodyBytes) {
    return absl::InvalidArgumentError("bulk bodies must be larger than their 16 B answers");
  }
  Window window(stream_, reader_, next_call_, workload);
  Measurement unrecorded;
  absl::Status status = window.RunChecked(unrecorded);
  if (status.ok()) {
    status = window.RunUntil(NowNs() + static_cast<uint64_t>(workload.warm_up.count()), unrecorded);
  }
  if (!status.ok()) return status;

  Measurement measurement;
  status = RunMetered(workload, server, measurement,
                      [&](uint64_t end_ns) { return window.RunUntil(end_ns, measurement); });
  if (!status.ok()) return status;

  status = window.Drain(unrecorded);
  if (!status.ok()) return status;
  next_call_ = window.next_call();
  measurement.errors += unrecorded.errors;
  if (measurement.first_error.empty()) measurement.first_error = unrecorded.first_error;
  return measurement;
}

}  // namespace farcall::bench
