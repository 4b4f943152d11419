#include "farcall/services/cli/probe.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/frame.h"
#include "farcall/rpc/hello.h"
#include "farcall/rpc/log.h"
#include "farcall/transports/dial.h"

namespace farcall::cli {
namespace {

constexpr size_t kPings = 32;
// An eager message, of several packets on every wire; and one that RDMA would read.
constexpr size_t kSmallBytes = 8 << 10;
constexpr size_t kLargeBytes = 1 << 20;
// Spinning for longer than an answer takes would only take the peer's core.
constexpr Duration kSpin = std::chrono::microseconds(200);
constexpr auto kNap = std::chrono::microseconds(50);

double MicrosecondsSince(TimePoint start) {
  return std::chrono::duration<double, std::micro>(Clock::Steady().Now() - start).count();
}

// One connection to a server, from HELLO on, without a session: what comes is kept for the probe.
class Peer final : public Receiver {
 public:
  Admission Admit(Ticket, std::span<const std::byte>, MessageSizes sizes) override {
    if (sizes.body == 0 && sizes.attachment == 0) return {};
    return {.refused = absl::InvalidArgumentError("nothing was asked for"), .attachment = {}};
  }
  void OnMessage(Ticket, Message&& message) override { Take(message.head.bytes()); }
  void OnAbandoned(Ticket, absl::Status) override {}
  void OnClosed(absl::Status status) override {
    if (!ended.has_value()) ended = std::move(status);
  }

  std::optional<Hello> hello;
  std::optional<uint64_t> pong;   // the last one's echo value
  std::optional<uint64_t> reply;  // the last one's call
  absl::StatusCode reply_status{};
  std::optional<absl::Status> ended;  // the connection is over, or should be

 private:
  void Take(std::span<const std::byte> head) {
    absl::StatusOr<FrameHeader> header = DecodeHeader(head);
    if (header.ok()) {
      if (absl::Status fields = CheckFields(header->type, head); !fields.ok()) header = fields;
    }
    if (!header.ok()) {
      ended = header.status();
      return;
    }
    switch (header->type) {
      case FrameType::kHello: {
        absl::StatusOr<Hello> decoded = DecodeHello(*header, head);
        if (!decoded.ok()) ended = decoded.status();
        if (decoded.ok()) hello = *std::move(decoded);
        return;
      }
      case FrameType::kPong:
        pong = header->call;
        return;
      case FrameType::kReply:
        reply_status = static_cast<absl::StatusCode>(header->status);
        reply = header->call;
        return;
      case FrameType::kGoAway: {
        FieldReader fields(head);
        Field field;
        const std::string why = fields.Next(field) ? Printable(field.value) : "it does not say why";
        ended = absl::UnavailableError(absl::StrCat("the server ends the connection: ", why));
        return;
      }
      default:
        return;
    }
  }
};

class Prober {
 public:
  Prober(Endpoint endpoint, Duration step) : endpoint_(std::move(endpoint)), step_(step) {}
  // The connection goes before the loop; what it still has to say, nobody hears.
  ~Prober() {
    OnLoop([this] { connection_.reset(); });
  }

  absl::StatusOr<ProbeStep> Connect();
  absl::StatusOr<ProbeStep> Greet();
  absl::StatusOr<ProbeStep> Ping();
  absl::StatusOr<ProbeStep> Small() { return Refused("8 KiB", kSmallBytes); }
  absl::StatusOr<ProbeStep> Large() { return Refused("1 MiB", kLargeBytes); }

 private:
  // Drives the loop until `done`, the connection's end, or the end of the step.
  absl::Status RunUntil(const std::function<bool()>& done);
  void OnLoop(const std::function<void()>& work);
  void Send(Message message, bool* left = nullptr);
  absl::Status RoundTrip();
  absl::StatusOr<ProbeStep> Refused(const char* name, size_t bytes);
  // The payload is read by the peer, if it wants it.
  bool Reads() const { return endpoint_.scheme == "rdma" || endpoint_.scheme == "shm"; }

  const Endpoint endpoint_;
  const Duration step_;
  EventLoop loop_{{.mode = ProgressMode::kBusy, .helper_thread = false}};
  std::shared_ptr<Transport> transport_;
  Peer peer_;
  std::unique_ptr<Connection> connection_;
  uint64_t last_ = 0;  // PING or call
};

absl::Status Prober::RunUntil(const std::function<bool()>& done) {
  const TimePoint start = Clock::Steady().Now();
  while (!done()) {
    if (peer_.ended.has_value()) return *peer_.ended;
    const TimePoint now = Clock::Steady().Now();
    if (now - start > step_) {
      return absl::DeadlineExceededError(absl::StrCat(
          "no answer within ", std::chrono::duration_cast<std::chrono::milliseconds>(step_).count(),
          " ms: is the server's process stopped, or busy? Does something on the way "
          "drop packets?"));
    }
    if (loop_.RunOnce() == 0 && now - start > kSpin) std::this_thread::sleep_for(kNap);
  }
  return absl::OkStatus();
}

void Prober::OnLoop(const std::function<void()>& work) {
  bool ran = false;
  loop_.Post([&] {
    work();
    ran = true;
  });
  while (!ran) loop_.RunOnce();
}

void Prober::Send(Message message, bool* left) {
  OnLoop([&] {
    const Ticket ticket = connection_->Send(std::move(message), [left](const SendResult& result) {
      if (left != nullptr) *left = result.status.ok();
    });
    if (ticket == 0 && left != nullptr) *left = true;
  });
}

absl::StatusOr<ProbeStep> Prober::Connect() {
  absl::StatusOr<std::shared_ptr<Transport>> transport = TransportFor(endpoint_);
  if (!transport.ok()) return transport.status();
  transport_ = *std::move(transport);
  const TimePoint start = Clock::Steady().Now();
  std::unique_ptr<Transport::PendingConnect> pending;
  std::optional<absl::Status> connected;
  OnLoop([&] {
    pending = transport_->Connect(loop_, endpoint_, loop_.now() + step_,
                                  [&](absl::StatusOr<std::unique_ptr<Connection>> made) {
                                    connected = made.status();
                                    if (made.ok()) connection_ = *std::move(made);
                                  });
  });
  absl::Status status = RunUntil([&] { return connected.has_value(); });
  OnLoop([&] { pending.reset(); });
  if (status.ok()) status = *connected;
  if (!status.ok()) return status;
  ProbeStep step{"connect", true, "", MicrosecondsSince(start)};
  step.text = absl::StrCat("to ", connection_->info().peer_address);
  return step;
}

absl::StatusOr<ProbeStep> Prober::Greet() {
  const TimePoint start = Clock::Steady().Now();
  // No calls are served here.
  absl::StatusOr<Head> head = EncodeHello(Hello{}, *connection_->pool());
  if (!head.ok()) return head.status();
  OnLoop([this] { connection_->Start(peer_); });
  Message hello;
  hello.head = *std::move(head);
  Send(std::move(hello));
  absl::Status status = RunUntil([this] { return peer_.hello.has_value(); });
  if (!status.ok()) return status;
  const Hello& theirs = *peer_.hello;
  ProbeStep step{"HELLO", true, "", MicrosecondsSince(start)};
  step.text =
      absl::StrCat("protocol ", std::min(theirs.max_version, kProtocolVersion), ", requests up to ",
                   theirs.max_body_bytes, " bytes, ", theirs.max_calls_in_flight, " calls at once");
  std::vector<std::string> offers;
  offers.reserve(theirs.offers.size());
  for (const auto& [name, value] : theirs.offers) offers.push_back(Printable(name));
  if (!offers.empty()) absl::StrAppend(&step.text, ", offers ", absl::StrJoin(offers, ", "));
  return step;
}

absl::Status Prober::RoundTrip() {
  const uint64_t echo = ++last_;
  Message ping;
  EncodeHeader({.type = FrameType::kPing, .call = echo},
               ping.head.Resize(kFrameHeaderBytes).data());
  Send(std::move(ping));
  return RunUntil([this, echo] { return peer_.pong == echo; });
}

absl::StatusOr<ProbeStep> Prober::Ping() {
  std::vector<double> times;
  for (size_t i = 0; i < kPings; ++i) {
    const TimePoint start = Clock::Steady().Now();
    absl::Status status = RoundTrip();
    if (!status.ok()) return status;
    times.push_back(MicrosecondsSince(start));
  }
  std::sort(times.begin(), times.end());
  ProbeStep step{"PING", true, "", times[times.size() / 2]};
  step.text = absl::StrCat("there and back, median of ", kPings, "; the fastest ",
                           static_cast<int64_t>(times.front()), " us, the slowest ",
                           static_cast<int64_t>(times.back()), " us");
  return step;
}

// Method 0 is never a method: every server refuses the call, after its head, and skips the payload.
absl::StatusOr<ProbeStep> Prober::Refused(const char* name, size_t bytes) {
  if (peer_.hello->max_calls_in_flight == 0) {
    return absl::FailedPreconditionError("the server takes no calls (max_calls_in_flight is 0)");
  }
  absl::StatusOr<Buffer> body = connection_->pool()->Allocate(bytes);
  if (!body.ok()) return body.status();
  std::fill_n(body->data(), bytes, std::byte{0x5a});
  body->SetView(0, bytes);
  const uint64_t call = ++last_;
  Message request;
  EncodeHeader({.type = FrameType::kRequest,
                .call = call,
                .timeout_ns = static_cast<uint64_t>(
                    std::chrono::duration_cast<std::chrono::nanoseconds>(step_).count())},
               request.head.Resize(kFrameHeaderBytes).data());
  request.body = *std::move(body);
  const TimePoint start = Clock::Steady().Now();
  bool left = false;
  Send(std::move(request), &left);
  absl::Status status = RunUntil([&] { return left && peer_.reply == call; });
  // What was sent before it has arrived when this comes back.
  if (status.ok()) status = RoundTrip();
  if (!status.ok()) return status;
  if (peer_.reply_status != absl::StatusCode::kUnimplemented) {
    return absl::UnavailableError(
        absl::StrCat("the server refuses calls: ", absl::StatusCodeToString(peer_.reply_status)));
  }
  ProbeStep step{name, true, "", MicrosecondsSince(start)};
  step.text = Reads() && bytes > kSmallBytes
                  ? "offered and declined: a server does not READ what it has no method for, so a "
                    "call of a service of yours has to show that"
                  : "carried to the server, and an answer back";
  return step;
}

// Which path the calls of a channel would go by, and why each better one is none for them.
absl::StatusOr<ProbeStep> ChoosePath(const Endpoint& endpoint, Duration step) {
  const TimePoint start = Clock::Steady().Now();
  absl::StatusOr<Channel> channel = Dial(endpoint.ToString());
  if (!channel.ok()) return channel.status();
  PathReport paths = channel->metrics().paths;
  while (paths.in_use.empty() || paths.looking) {
    if (Clock::Steady().Now() - start > step) {
      return absl::DeadlineExceededError(
          "no path was chosen in time; calls go by TCP until one is");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    paths = channel->metrics().paths;
  }
  ProbeStep made{"path", true, absl::StrCat("calls go by ", paths.in_use),
                 MicrosecondsSince(start)};
  for (const PathReport::Unused& unused : paths.better) {
    absl::StrAppend(&made.text, "; not by ", unused.name, ": ", Printable(unused.reason));
  }
  return made;
}

}  // namespace

std::vector<ProbeStep> Probe(const Endpoint& endpoint, Duration step) {
  using Do = absl::StatusOr<ProbeStep> (Prober::*)();
  constexpr std::pair<const char*, Do> kSteps[] = {{"connect", &Prober::Connect},
                                                   {"HELLO", &Prober::Greet},
                                                   {"PING", &Prober::Ping},
                                                   {"8 KiB", &Prober::Small},
                                                   {"1 MiB", &Prober::Large}};
  std::vector<ProbeStep> steps;
  const auto keep = [&steps](const char* name, absl::StatusOr<ProbeStep> made) {
    steps.push_back(made.ok() ? *std::move(made)
                              : ProbeStep{name, false, std::string(made.status().message()), 0});
    return steps.back().ok;
  };
  {
    Prober prober(endpoint, step);
    for (const auto& [name, run] : kSteps) {
      if (!keep(name, (prober.*run)())) return steps;
    }
  }
  if (endpoint.scheme == "auto") keep("path", ChoosePath(endpoint, step));
  return steps;
}

}  // namespace farcall::cli
