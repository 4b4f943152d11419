#include "farcall/rpc/session.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/metadata.h"
#include "farcall/rpc/probe.h"

namespace farcall {
namespace {

bool IsCallFrame(FrameType type) {
  return type == FrameType::kRequest || type == FrameType::kReply;
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Session::Session(EventLoop& loop, std::unique_ptr<Connection> connection, SessionOptions options)
    : loop_(loop),
      options_(std::move(options)),
      connection_(std::move(connection)),
      peer_address_(connection_->info().peer_address),
      opened_at_(loop_.now()) {
  if (options_.list != nullptr) listed_as_ = options_.list->Add(*this);
}

Session::~Session() {
  if (listed_as_ != 0) options_.list->Remove(listed_as_);
}

ConnectionStats Session::stats() const {
  const ConnectionInfo info = connection_->info();
  ConnectionStats stats;
  stats.state = state_.load(std::memory_order_relaxed);
  stats.peer = peer_address_;
  stats.transport = info.transport;
  stats.age = loop_.clock().Now() - opened_at_;
  stats.unread_answers = unread_answers_;
  stats.unread_bytes = unread_bytes_;
  stats.counters = info.counters;
  tally_.AddTo(stats);
  return stats;
}

void Session::NoteDraining() {
  if (!ending_) state_.store(ConnectionStats::State::kDraining, std::memory_order_relaxed);
}

void Session::NoteEnding(const absl::Status& reason) {
  ending_ = true;
  reason_ = reason;
  state_.store(ConnectionStats::State::kClosing, std::memory_order_relaxed);
}

// From here on only what it was is told.
void Session::LeaveList() {
  if (listed_as_ == 0) return;
  ConnectionStats last = stats();
  last.id = listed_as_;
  last.state = ConnectionStats::State::kClosed;
  last.end = std::string(reason_.message());
  options_.list->Remove(std::exchange(listed_as_, 0));
  options_.list->KeepClosed(std::move(last));
}

void Session::Start() {
  Hello hello;
  hello.max_body_bytes = options_.limits.max_body_bytes;
  hello.max_attachment_bytes = options_.limits.max_attachment_bytes;
  hello.max_calls_in_flight = options_.limits.max_calls_in_flight;
  hello.authentication = options_.authentication;
  hello.token = options_.token;
  if (connection_->path_host() != nullptr) hello.features |= kFeatureOffers;
  connection_->Start(*this);
  last_heard_ = loop_.now();
  absl::StatusOr<Head> head = EncodeHello(hello, *connection_->pool());
  if (!head.ok()) {
    End(head.status());
    return;
  }
  Message message;
  message.head = *std::move(head);
  connection_->Send(std::move(message), {});
  loop_.timers().Arm(*this, After(last_heard_, options_.keepalive.handshake_timeout));
}

void Session::TurnAway(const absl::Status& reason) {
  connection_->Start(*this);
  End(reason);
}

void Session::End(const absl::Status& reason) {
  if (ending_) return;
  NoteEnding(reason);
  SendGoAway(reason);
  connection_->Close(reason);
}

absl::Status Session::Violation(absl::string_view rule) {
  absl::Status status =
      absl::InvalidArgumentError(absl::StrCat("protocol violation by ", peer_address_, ": ", rule));
  End(status);
  return status;
}

void Session::SendAnswer(Message&& message) {
  if (unread_answers_ >= options_.limits.max_unread_answers) {
    End(absl::ResourceExhaustedError(absl::StrCat(
        peer_address_, " does not read its answers: ", uint64_t{unread_answers_},
        " wait already (limits.max_unread_answers); read them, or make fewer calls at once")));
    return;
  }
  const uint64_t bytes = message.head.size() + message.payload_bytes();
  const Ticket ticket =
      connection_->Send(std::move(message), [this, bytes](const SendResult& result) {
        --unread_answers_;
        unread_bytes_ -= bytes;
        if (absl::IsResourceExhausted(result.status) && !OnAnswerUnsent(result)) {
          End(absl::ResourceExhaustedError(absl::StrCat(
              peer_address_, " does not read its answers: ", result.status.message())));
        }
      });
  if (ticket == 0) return;
  ++unread_answers_;
  unread_bytes_ += bytes;
}

void Session::SendControl(const FrameHeader& header) {
  Message message;
  EncodeHeader(header, message.head.Resize(kFrameHeaderBytes).data());
  SendAnswer(std::move(message));
}

void Session::SendGoAway(const absl::Status& status) {
  HeadBuilder head(*connection_->pool());
  AddStatus(absl::Status(status.code(), status.message()), head);  // GOAWAY carries no payloads
  Message message;
  message.head =
      head.Finish({.type = FrameType::kGoAway, .status = static_cast<uint16_t>(status.code())});
  connection_->Send(std::move(message), {});
}

// Not OK: it breaks a rule, or nobody wants it any more.
absl::Status Session::Check(std::span<const std::byte> head, MessageSizes sizes,
                            FrameHeader& header) {
  if (ending_) return reason_;
  absl::Status checked = DecodeHeader(head, header);
  if (checked.ok()) checked = CheckFields(header.type, head);
  if (!checked.ok()) return Violation(checked.message());
  const FrameType type = header.type;
  if (!hello_seen_ && type != FrameType::kHello && type != FrameType::kGoAway) {
    return Violation("a frame before HELLO");
  }
  if (IsCallFrame(type)) return absl::OkStatus();
  if (type == FrameType::kHello && std::exchange(hello_seen_, true)) {
    return Violation("a second HELLO");
  }
  if (type == FrameType::kProbe) return CheckProbe(sizes);
  if (sizes.body != 0 || sizes.attachment != 0) return Violation("a payload on a control frame");
  return absl::OkStatus();
}

absl::Status Session::CheckProbe(MessageSizes sizes) {
  if (sizes.attachment != 0) return Violation("an attachment on a PROBE");
  if (sizes.body > kMaxProbeBytes) {
    return Violation(
        absl::StrCat("a PROBE of ", sizes.body, " bytes; the limit is ", kMaxProbeBytes));
  }
  absl::Status admitted = AdmitProbe();
  if (admitted.ok()) probe_since_ = loop_.now();
  return admitted;
}

Admission Session::Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) {
  FrameHeader header;
  absl::Status refused = Check(head, sizes, header);
  if (!refused.ok() || !IsCallFrame(header.type)) {
    return {.refused = std::move(refused), .attachment = {}};
  }
  FARCALL_PROBE(kAdmitted);
  last_heard_ = loop_.now();
  return AdmitCall(ticket, header, head, sizes);
}

void Session::OnMessage(Ticket /*ticket*/, Message&& message) {
  if (ending_) return;
  last_heard_ = loop_.now();
  ping_pending_ = false;
  const FrameHeader header = ReadHeader(message.head.bytes());  // Admit accepted this head
  if (IsCallFrame(header.type)) {
    FARCALL_PROBE(kWhole);
    return OnCall(header, std::move(message));
  }
  OnControl(header, std::move(message));
}

void Session::OnWhole(Ticket ticket, Message&& message) {
  FrameHeader header;
  if (!Check(message.head.bytes(), {message.body.size(), 0}, header).ok()) return;
  last_heard_ = loop_.now();
  ping_pending_ = false;
  if (IsCallFrame(header.type)) {
    FARCALL_PROBE(kAdmitted);
    FARCALL_PROBE(kWhole);
    return OnWholeCall(ticket, header, std::move(message));
  }
  OnControl(header, std::move(message));
}

void Session::OnControl(const FrameHeader& header, Message&& message) {
  switch (header.type) {
    case FrameType::kCancel:
      return OnCancel(header.call);
    case FrameType::kPing:
      return SendControl({.type = FrameType::kPong, .call = header.call});
    case FrameType::kHello:
      return OnHello(header, message.head);
    case FrameType::kGoAway:
      return OnGoAway(header, message.head);
    case FrameType::kOffers:
      return OnOffers(message.head);
    case FrameType::kProbe:
      probe_since_ = {};
      return OnProbe(header, std::move(message));
    case FrameType::kPong:
    case FrameType::kRequest:
    case FrameType::kReply:
      return;
  }
}

void Session::OnHello(const FrameHeader& header, const Head& head) {
  absl::StatusOr<Hello> hello = DecodeHello(header, head.bytes());
  if (!hello.ok()) {
    End(absl::Status(hello.status().code(),
                     absl::StrCat(peer_address_, ": ", hello.status().message())));
    return;
  }
  peer_hello_ = *std::move(hello);
  ready_ = true;
  state_.store(ConnectionStats::State::kReady, std::memory_order_relaxed);
  loop_.timers().Arm(*this, After(loop_.now(), options_.keepalive.ping_after));
  OnReady();
}

void Session::OnGoAway(const FrameHeader& header, const Head& head) {
  const absl::Status status = ReadStatus(header, head.bytes());
  if (status.ok()) {
    OnDraining();
    return;
  }
  // The peer has decided; it will not read an answer.
  NoteEnding(absl::Status(
      status.code(), absl::StrCat(peer_address_, " ended the connection: ",
                                  status.message().empty() ? absl::StatusCodeToString(status.code())
                                                           : std::string(status.message()))));
  connection_->Close(reason_);
}

void Session::OnClosed(absl::Status status) {
  Disarm();
  NoteEnding(reason_.ok() ? status : reason_);
  LeaveList();
  OnEnded(reason_);
}

// Called now and then: whether a peer for which answers wait has taken none since long ago.
bool Session::TakesNothing(TimePoint now, uint64_t bytes_sent) {
  if (unread_answers_ == 0 || bytes_sent != sent_at_look_) {
    sent_at_look_ = bytes_sent;
    takes_nothing_since_ = now;
    return false;
  }
  return now - takes_nothing_since_ >= options_.keepalive.stall_timeout;
}

// One timer serves the handshake first and keepalive afterwards.
void Session::OnTimer() {
  if (!ready_) {
    End(absl::UnavailableError(
        absl::StrCat(peer_address_, " is connected but sent no HELLO within ",
                     Seconds(options_.keepalive.handshake_timeout), " s: does it speak Farcall?")));
    return;
  }
  const TimePoint now = loop_.now();
  const ConnectionCounters counters = connection_->info().counters;
  if (TakesNothing(now, counters.bytes_sent)) {
    End(absl::ResourceExhaustedError(
        absl::StrCat(peer_address_, " does not read: ", uint64_t{unread_answers_}, " answers (",
                     uint64_t{unread_bytes_}, " bytes) wait for it, and it took nothing for ",
                     Seconds(now - takes_nothing_since_), " s (keepalive.stall_timeout)")));
    return;
  }
  if (probe_since_ != TimePoint() && now - probe_since_ >= options_.keepalive.stall_timeout) {
    End(absl::UnavailableError(absl::StrCat("a PROBE of ", peer_address_, " is not whole after ",
                                            Seconds(now - probe_since_),
                                            " s (keepalive.stall_timeout)")));
    return;
  }
  const TimePoint quiet_until = After(last_heard_, options_.keepalive.ping_after);
  if (now < quiet_until) {
    ping_pending_ = false;
    loop_.timers().Arm(*this, quiet_until);
    return;
  }
  // A long payload is a sign of life although no message of it is whole yet.
  const uint64_t bytes = counters.bytes_received;
  if (ping_pending_ && bytes == bytes_at_ping_) {
    End(absl::UnavailableError(absl::StrCat("nothing heard from ", peer_address_, " for ",
                                            Seconds(now - last_heard_),
                                            " s and no answer to PING: taken for dead")));
    return;
  }
  bytes_at_ping_ = bytes;
  ping_pending_ = true;
  SendControl({.type = FrameType::kPing, .call = 1});
  loop_.timers().Arm(*this, After(now, options_.keepalive.ping_timeout));
}

}  // namespace farcall
