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
// An eager message, and one that RDMA reads.
constexpr size_t kSmallBytes = 4 << 10;
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
    if (sizes.body <= kLargeBytes && sizes.attachment == 0) return {};
    return {.refused = absl::InvalidArgumentError("nothing was asked for"), .attachment = {}};
  }
  void OnMessage(Ticket, Message&& message) override { Take(message); }
  void OnAbandoned(Ticket, absl::Status) override {}
  void OnClosed(absl::Status status) override {
    if (!ended.has_value()) ended = std::move(status);
  }

  std::optional<Hello> hello;
  std::optional<uint64_t> pong;       // the last one's echo value
  std::optional<uint64_t> probe;      // likewise
  Buffer probe_body;                  // of that
  std::optional<absl::Status> ended;  // the connection is over, or should be

 private:
  void Take(Message& message) {
    const std::span<const std::byte> head = message.head.bytes();
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
      case FrameType::kProbe:
        probe = header->call;
        probe_body = std::move(message.body);
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
  absl::StatusOr<ProbeStep> Small() { return Echo("4 KiB", kSmallBytes); }
  absl::StatusOr<ProbeStep> Large() { return Echo("1 MiB", kLargeBytes); }

 private:
  // Drives the loop until `done`, the connection's end, or the end of the step.
  absl::Status RunUntil(const std::function<bool()>& done);
  void OnLoop(const std::function<void()>& work);
  void Send(Message message);
  absl::Status RoundTrip();
  absl::StatusOr<ProbeStep> Echo(const char* name, size_t bytes);
  // A large payload is read by who gets it.
  bool Reads() const { return endpoint_.scheme == "rdma" || endpoint_.scheme == "shm"; }

  const Endpoint endpoint_;
  const Duration step_;
  EventLoop loop_{{.mode = ProgressMode::kBusy, .helper_thread = false}};
  std::shared_ptr<Transport> transport_;
  Peer peer_;
  std::unique_ptr<Connection> connection_;
  uint64_t last_ = 0;  // echo value
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

void Prober::Send(Message message) {
  OnLoop([&] { connection_->Send(std::move(message), [](const SendResult&) {}); });
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
  if (theirs.max_calls_in_flight == 0) {
    return absl::FailedPreconditionError("the server takes no calls (max_calls_in_flight is 0)");
  }
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

absl::StatusOr<ProbeStep> Prober::Echo(const char* name, size_t bytes) {
  absl::StatusOr<Buffer> body = connection_->pool()->Allocate(bytes);
  if (!body.ok()) return body.status();
  const auto byte_at = [](size_t at) { return static_cast<std::byte>(at * 7 + at / 256); };
  for (size_t i = 0; i < bytes; ++i) body->data()[i] = byte_at(i);
  const uint64_t echo = ++last_;
  Message probe;
  EncodeHeader({.type = FrameType::kProbe, .call = echo},
               probe.head.Resize(kFrameHeaderBytes).data());
  probe.body = *std::move(body);
  const TimePoint start = Clock::Steady().Now();
  Send(std::move(probe));
  absl::Status status = RunUntil([&] { return peer_.probe == echo; });
  if (!status.ok()) return status;
  ProbeStep step{name, true, "", MicrosecondsSince(start)};
  const Buffer back = std::move(peer_.probe_body);
  bool same = back.size() == bytes;
  for (size_t i = 0; same && i < bytes; ++i) same = back.data()[i] == byte_at(i);
  if (!same) return absl::DataLossError("other bytes came back than were sent");
  step.text = absl::StrCat("there and back, ", !Reads() ? "as a stream"
                                               : bytes > kSmallBytes
                                                   ? "each way by READs of the side that gets it"
                                                   : "each way by SENDs");
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
                                                   {"4 KiB", &Prober::Small},
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
