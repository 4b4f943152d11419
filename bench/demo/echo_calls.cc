#include "farcall/bench/demo/echo_calls.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "farcall/bench/measure/payload.h"

namespace farcall::bench {
namespace {

// The slowest call, a 16 MiB body behind seven others, takes some 100 ms on a slow machine.
constexpr std::chrono::seconds kPatience(5);

std::span<const uint8_t> BytesOf(const flatbuffers::Vector<uint8_t>* data) {
  return data == nullptr ? std::span<const uint8_t>() : std::span(data->data(), data->size());
}

std::span<const uint8_t> BytesOf(const Buffer& buffer) {
  return {reinterpret_cast<const uint8_t*>(buffer.data()), buffer.size()};
}

absl::Status Wrong(uint64_t number, const std::string& what) {
  return absl::DataLossError("the reply to call " + std::to_string(number) + ": " + what);
}

absl::Status CheckEcho(uint64_t number, std::span<const uint8_t> echoed, size_t bytes,
                       bool in_full) {
  if (echoed.size() != bytes) {
    return Wrong(number,
                 std::to_string(echoed.size()) + " bytes came back of " + std::to_string(bytes));
  }
  if (bytes == 0) return absl::OkStatus();
  if (StampsOf(echoed) != StampsFor(number)) return Wrong(number, "it answers another call");
  if (in_full && !HoldsPattern(echoed)) return Wrong(number, "it is not what was sent");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EchoCalls> EchoCalls::Make(const Channel& channel, const Workload& workload) {
  if (workload.bytes < kMinPayloadBytes || workload.outstanding < 1) {
    return absl::InvalidArgumentError("payloads have 16 bytes at least, and one call is made");
  }
  return EchoCalls(channel, workload);
}

EchoCalls::EchoCalls(const Channel& channel, const Workload& workload)
    : echo_(channel),
      options_{.timeout = kPatience, .wait_for_ready = true, .metadata = {}},
      discards_(workload.kind == Case::kBulkRequest),
      data_bytes_(workload.kind == Case::kBulkReply              ? kMinPayloadBytes
                  : discards_ || workload.bytes <= kMaxDataBytes ? workload.bytes
                                                                 : 0),
      attachment_bytes_(workload.kind == Case::kBulkReply ? 0 : workload.bytes - data_bytes_),
      reply_attachment_bytes_(workload.kind == Case::kBulkReply ? workload.bytes : 0) {}

void EchoCalls::Fill(uint64_t number, uint8_t* payload, size_t bytes) const {
  if (in_full_) FillPattern({payload, bytes});
  SetStamps({payload, bytes}, StampsFor(number));
}

absl::Status EchoCalls::Build(uint64_t number, Builder<services::BytesRequest>& request) const {
  if (attachment_bytes_ > 0) {
    absl::StatusOr<Buffer> attachment = request.AllocateAttachment(attachment_bytes_);
    if (!attachment.ok()) return attachment.status();
    Fill(number, reinterpret_cast<uint8_t*>(attachment->data()), attachment_bytes_);
    request.Attach(*std::move(attachment));
  }
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data;
  if (data_bytes_ > 0) {
    uint8_t* payload = nullptr;
    data = request.CreateUninitializedVector<uint8_t>(data_bytes_, &payload);
    Fill(number, payload, data_bytes_);
  }
  request.Finish(services::CreateBytesRequest(request, data, reply_attachment_bytes_));
  return absl::OkStatus();
}

void EchoCalls::Build(uint64_t number, Builder<services::DiscardRequest>& request) const {
  uint8_t* payload = nullptr;
  const auto data = request.CreateUninitializedVector<uint8_t>(data_bytes_, &payload);
  Fill(number, payload, data_bytes_);
  request.Finish(services::CreateDiscardRequest(request, data));
}

absl::Status EchoCalls::Call(uint64_t number) {
  if (discards_) {
    Builder<services::DiscardRequest> request = NewDiscard();
    Build(number, request);
    return Check(number, echo_.Discard(std::move(request), options_));
  }
  Builder<services::BytesRequest> request = NewBytes();
  if (absl::Status built = Build(number, request); !built.ok()) return built;
  return Check(number, echo_.Bytes(std::move(request), options_));
}

absl::Status EchoCalls::Check(uint64_t number,
                              const absl::StatusOr<Msg<services::BytesReply>>& reply) const {
  if (!reply.ok()) return reply.status();
  const services::BytesReply& answer = **reply;
  absl::Status data = CheckEcho(number, BytesOf(answer.data()), data_bytes_, in_full_);
  if (!data.ok()) return data;
  const std::span<const uint8_t> attachment = BytesOf(reply->attachment());
  if (reply_attachment_bytes_ == 0) {
    return CheckEcho(number, attachment, attachment_bytes_, in_full_);
  }
  // What the server sends of its own are zeros.
  const bool zeros =
      attachment.size() == reply_attachment_bytes_ && StampsOf(attachment) == Stamps{} &&
      (!in_full_ ||
       std::all_of(attachment.begin(), attachment.end(), [](uint8_t byte) { return byte == 0; }));
  return zeros ? absl::OkStatus() : Wrong(number, "its attachment is not what was asked for");
}

absl::Status EchoCalls::Check(uint64_t number,
                              const absl::StatusOr<Msg<services::DiscardReply>>& reply) const {
  if (!reply.ok()) return reply.status();
  const services::DiscardReply& seen = **reply;
  if (seen.data_bytes() != data_bytes_ || seen.attachment_bytes() != 0) {
    return Wrong(number, "the server saw " + std::to_string(seen.data_bytes()) + " bytes of " +
                             std::to_string(data_bytes_));
  }
  if (Stamps{seen.first(), seen.last()} != StampsFor(number)) {
    return Wrong(number, "the server saw other bytes than were sent");
  }
  return absl::OkStatus();
}

}  // namespace farcall::bench
