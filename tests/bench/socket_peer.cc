// A peer for tests: the floor's plain sockets. Variants: "honest"; "wrong", whose replies are those
// to other calls from the tenth on; "broken", which closes its connection instead of the tenth.
#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "farcall/bench/floor/stream.h"
#include "farcall/bench/peers/peer.h"

namespace farcall::bench {
namespace {

constexpr std::chrono::seconds kPatience(5);
constexpr int kHonest = 9;

absl::Status ReadAll(Stream& stream, std::span<uint8_t> room) {
  while (!room.empty()) {
    const absl::StatusOr<size_t> bytes = stream.Read(room);
    if (!bytes.ok()) return bytes.status();
    if (*bytes == 0) return absl::UnavailableError("the other end has closed the connection");
    room = room.subspan(*bytes);
  }
  return absl::OkStatus();
}

class SocketPeer final : public Peer {
 public:
  explicit SocketPeer(std::string_view variant) : variant_(variant) {}

  std::string About() const override { return "sockets of the system, " + variant_; }

  absl::Status Serve(const PeerSizes& sizes,
                     const std::function<void(const std::string&)>& listening) override {
    const absl::StatusOr<FileDescriptor> listener = ListenOnLoopback(0);
    if (!listener.ok()) return listener.status();
    listening(std::to_string(PortOf(*listener).value_or(0)));
    absl::StatusOr<Stream> stream = Stream::Accept(*listener, Mode::kEvent, kPatience);
    if (!stream.ok()) return stream.status();
    const PeerAnswers answers(sizes);
    std::vector<uint8_t> request(sizes.request_bytes);
    std::vector<uint8_t> reply(sizes.reply_bytes);
    absl::Status status;
    for (int calls = 0; status.ok(); ++calls) {
      status = ReadAll(*stream, request);
      if (status.ok() && !sizes.echo) status = answers.Write(request, reply);
      if (calls >= kHonest && variant_ == "broken") return absl::OkStatus();
      std::vector<uint8_t>& answer = sizes.echo ? request : reply;
      if (calls >= kHonest && variant_ == "wrong") answer.back() ^= uint8_t{1};
      if (status.ok()) status = stream->Write(answer);
    }
    return absl::IsUnavailable(status) ? absl::OkStatus() : status;
  }

  absl::Status Call(const std::string& address, PeerCalls& calls) override {
    const PeerSizes& sizes = calls.sizes();
    absl::StatusOr<Stream> stream =
        Stream::Connect(static_cast<uint16_t>(std::stoi(address)), Mode::kEvent, kPatience);
    if (!stream.ok()) return stream.status();
    std::vector<uint8_t> request(sizes.request_bytes);
    std::vector<uint8_t> reply(sizes.reply_bytes);
    absl::Status status;
    const auto begin = [&](size_t slot) {
      calls.Begin(slot, request);
      if (status.ok()) status = stream->Write(request);
    };
    for (size_t slot = 0; slot < sizes.outstanding; ++slot) begin(slot);
    // Answers come in the order of the requests.
    size_t under_way = sizes.outstanding;
    for (size_t slot = 0; under_way > 0 && status.ok(); slot = (slot + 1) % sizes.outstanding) {
      status = ReadAll(*stream, reply);
      if (!status.ok()) break;
      if (calls.End(slot, reply)) {
        begin(slot);
      } else {
        --under_way;
      }
    }
    return status;
  }

 private:
  const std::string variant_;
};

}  // namespace

std::unique_ptr<Peer> MakePeer(std::string_view variant) {
  if (variant != "honest" && variant != "wrong" && variant != "broken") return nullptr;
  return std::make_unique<SocketPeer>(variant);
}

}  // namespace farcall::bench
