// As many large payloads in flight as the limits have room for, without end: what a FIN ends makes
// room before what came right behind it.

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "farcall/tests/rpc/probe.h"
#include "farcall/transports/dial.h"

namespace farcall::testing {
namespace {

constexpr size_t kPayload = size_t{256} << 10;
constexpr int kInFlight = 6;
constexpr int kCalls = 600;
// What a message holds beside its payload: a body's slot, a head.
constexpr size_t kBeside = 1024;

// Answers with an attachment as long as the request's.
class MirrorImpl : public ProbeImpl {
 public:
  absl::Status Do(Context& context, const Ask& /*request*/, Reply<Answer>& reply) {
    absl::StatusOr<Buffer> attachment = reply.AllocateAttachment(context.attachment().size());
    if (!attachment.ok()) return attachment.status();
    reply.Attach(*std::move(attachment));
    reply.Finish(CreateAnswer(reply));
    return absl::OkStatus();
  }
};

// Keeps kInFlight calls under way, each of which starts the next from its callback.
class Window {
 public:
  explicit Window(const Channel& channel) : client_(channel) {}

  bool Run() {
    for (int i = 0; i < kInFlight; ++i) Start();
    return Eventually([this] { return under_way_ == 0; }, std::chrono::seconds(30));
  }
  int succeeded() const { return succeeded_; }
  const std::string& failure() const { return failure_; }

 private:
  void Start() {
    if (started_.fetch_add(1) >= kCalls) return;
    ++under_way_;
    auto request = client_.NewDo();
    absl::StatusOr<Buffer> attachment = request.AllocateAttachment(kPayload);
    if (!attachment.ok()) return Ended(attachment.status());
    request.Attach(*std::move(attachment));
    request.Finish(CreateAsk(request));
    client_.AsyncDo(std::move(request), {.timeout = std::chrono::seconds(20)},
                    [this](const absl::StatusOr<Msg<Answer>>& reply) { Ended(reply.status()); });
  }

  void Ended(const absl::Status& status) {
    if (status.ok()) {
      ++succeeded_;
      Start();
    } else if (failure_.empty()) {
      failure_ = status.ToString();
    }
    --under_way_;
  }

  Probe::Client client_;
  std::atomic<int> started_{0}, under_way_{0}, succeeded_{0};
  std::string failure_;
};

TEST_CASE("requests and replies that just fit the limits never fail for want of room") {
  MirrorImpl mirror;
  Server server({.limits = {.max_unread_reply_bytes = kInFlight * kPayload}});
  REQUIRE(server.Add(Probe::Bind(mirror)).ok());
  TransportOptions transports;
  transports.shm.rdma.limits.max_queued_bytes = kInFlight * (kPayload + kBeside);
  const auto address = Listen(server, "shm://window-" + std::to_string(::getpid()), transports);
  REQUIRE(address.ok());
  const auto channel = Dial(address->ToString(), {}, transports);
  REQUIRE(channel.ok());
  Window window(*channel);
  CHECK(window.Run());
  CHECK(window.failure().empty());
  CHECK(window.succeeded() == kCalls);
}

}  // namespace
}  // namespace farcall::testing
