#include "farcall/rpc/client_session.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/metadata.h"
#include "farcall/rpc/planted.h"
#include "farcall/rpc/probe.h"

namespace farcall {
namespace {

// Of an idempotent call. When a server dies its path goes first, and takes a call along that is
// then sent by the main connection of the same server: the next one may still answer it. A request
// that kills who gets it is not to kill servers for ever.
constexpr uint8_t kMaxRepeats = 2;
// What a builder may have taken for a small body, growing by doubling.
constexpr size_t kMaxKeptBytes = 2 * kSmallPayloadBytes;

// What a server says of a call that it refused, with the method's name: a server that lacks the
// method knows its id only.
absl::Status Refused(const absl::Status& said, std::string_view method) {
  const bool named = Std(said.message()).find(method) != std::string_view::npos;
  return WithOutcome(
      named ? said : Reworded(said, absl::StrCat(Absl(method), ": ", said.message())),
      Outcome::kNotRun);
}

}  // namespace

absl::Status ClientSession::CheckSize(const ClientCall& call) const {
  const Hello& peer = peer_hello();
  const Message& message = call.request_.message;
  if (message.body.size() > peer.max_body_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("a request of ", message.body.size(),
                                                     " bytes; ", peer_address(), " takes ",
                                                     peer.max_body_bytes, " (its max_body_bytes)"));
  }
  if (message.attachment.size() > peer.max_attachment_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("an attachment of ", message.attachment.size(), " bytes; ", peer_address(),
                     " takes ", peer.max_attachment_bytes, " (its max_attachment_bytes)"));
  }
  return absl::OkStatus();
}

void ClientSession::Carry(ClientCall& call) {
  tally().Reserve();
  calls_.Insert(call);
  ++tally().started;
  call.session_ = this;
  call.state_ = ClientCall::State::kSending;
  call.reply_ticket_ = 0;
  const Duration left = call.request_.deadline - loop().now();
  EncodeHeader({.type = FrameType::kRequest,
                .call = call.id_,
                .method = call.request_.method->id,
                .timeout_ns = static_cast<uint64_t>(std::max<Duration::rep>(1, left.count()))},
               call.request_.message.head.data());
  if (call.request_.info != nullptr) {
    call.request_.info->peer = peer_address();
    if (call.request_.info->record_stages)
      call.request_.info->stages.handed = Clock::Steady().Now();
  }
  FARCALL_PROBE(kHanded);
  call.ticket_ = connection().Send(TakeMessage(call), [this, id = call.id_](SendResult result) {
    OnSent(id, std::move(result));
  });
  if (call.ticket_ == 0) NoteLeft(call);
}

// It costs no copy, but the memory until the answer, the whole slot: of small requests only, and of
// none with an attachment, which may be the user's memory.
Message ClientSession::TakeMessage(ClientCall& call) {
  Message& message = call.request_.message;
  call.keeps_message_ = call.request_.method->idempotent && call.repeats_ < kMaxRepeats &&
                        message.body.size() <= kSmallPayloadBytes && !message.attachment &&
                        message.body && message.body.slot()->capacity <= kMaxKeptBytes;
  if (!call.keeps_message_) return std::move(message);
  return {.head = message.head.Share(), .body = message.body.Share(), .attachment = {}};
}

bool ClientSession::MakeRepeatable(ClientCall& call) {
  if (!call.keeps_message_ || call.state_ == ClientCall::State::kWithdrawn) return false;
  Head& head = call.request_.message.head;
  if (head.spilled_bytes() == 0) return true;
  // Whoever the message went to may be reading its head still, and Carry writes to it.
  absl::StatusOr<Buffer> spill = connection().pool()->Allocate(head.size());
  if (!spill.ok()) return false;
  std::memcpy(spill->data(), head.data(), head.size());
  head.Resize(head.size(), *std::move(spill));
  return true;
}

void ClientSession::NoteLeft(ClientCall& call) {
  call.state_ = ClientCall::State::kAwaiting;
  CallInfo* const info = call.request_.info;
  if (info != nullptr && info->record_stages) info->stages.left = Clock::Steady().Now();
}

void ClientSession::OnSent(uint64_t id, SendResult result) {
  // The connection ended, and OnEnded comes after the last of these: what ends a call here must not
  // let the next one out.
  if (!result.status.ok() && !absl::IsCancelled(result.status) &&
      !absl::IsResourceExhausted(result.status)) {
    lost_ = true;
  }
  ClientCall* call = calls_.Find(id);
  if (call == nullptr) return;  // it was answered or ended meanwhile
  if (result.sent) {
    // An ended connection is OnEnded's to report.
    if (call->state_ != ClientCall::State::kWithdrawn) return NoteLeft(*call);
    EndSent(*call, call->cause_);
    return;
  }
  call->request_.message = std::move(result.message);
  if (call->state_ == ClientCall::State::kWithdrawn) {
    if (FARCALL_PLANTED(kBufferLostOnWithdraw)) new Buffer(std::move(call->request_.message.body));
    Leave(*call, WithOutcome(call->cause_, Outcome::kNotSent), {});
  } else if (absl::IsResourceExhausted(result.status)) {
    Leave(*call, WithOutcome(result.status, Outcome::kNotSent), {});
  } else {
    lost_ = true;  // whatever it says
    --tally().started;
    call->keeps_message_ = false;
    calls_.Erase(*call);
    call->session_ = nullptr;
    owner_.Return(*call);
  }
}

void ClientSession::EndSent(ClientCall& call, const absl::Status& cause) {
  if (call.reply_ticket_ != 0) connection().Abandon(call.reply_ticket_, cause);
  SendControl({.type = FrameType::kCancel, .call = call.id_});
  const bool lies = FARCALL_PLANTED(kNotSentAfterItLeft);
  Leave(call, WithOutcome(cause, lies ? Outcome::kNotSent : Outcome::kUnknown), {});
}

void ClientSession::EndCall(ClientCall& call, const absl::Status& cause) {
  switch (call.state_) {
    case ClientCall::State::kSending:
      if (FARCALL_PLANTED(kDeadlineIgnoredInSending) && absl::IsDeadlineExceeded(cause)) break;
      call.state_ = ClientCall::State::kWithdrawn;
      call.cause_ = With(cause, " while it was sent to ");
      connection().Withdraw(call.ticket_);
      break;
    case ClientCall::State::kAwaiting:
      if (FARCALL_PLANTED(kCancelIgnoredInAwaiting) && absl::IsCancelled(cause)) break;
      EndSent(call, With(cause, call.reply_ticket_ == 0 ? " before the reply of "
                                                        : " while the reply came from "));
      break;
    default:
      break;  // withdrawn already: its end is on the way
  }
}

absl::Status ClientSession::With(const absl::Status& cause, absl::string_view where) const {
  return absl::Status(cause.code(), absl::StrCat(cause.message(), where, peer_address()));
}

absl::Status ClientSession::CheckReply(MessageSizes sizes) const {
  const MessageLimits& limits = options().limits;
  if (sizes.body > limits.max_body_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the reply of ", peer_address(), " has ", sizes.body, " bytes; this channel takes ",
        limits.max_body_bytes, " (ChannelOptions::limits.max_body_bytes)"));
  }
  if (sizes.attachment > limits.max_attachment_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the attachment in the reply of ", peer_address(), " has ", sizes.attachment,
                     " bytes; this channel takes ", limits.max_attachment_bytes,
                     " (ChannelOptions::limits.max_attachment_bytes)"));
  }
  return absl::OkStatus();
}

ClientCall* ClientSession::CallOf(const FrameHeader& reply) const {
  if (FARCALL_PLANTED(kReplyBySlot)) {
    return calls_.FindIf([&reply](const ClientCall& call) {
      return static_cast<uint32_t>(call.id_) == static_cast<uint32_t>(reply.call);
    });
  }
  return calls_.Find(reply.call);
}

absl::Status ClientSession::Expect(Ticket ticket, const FrameHeader& header, MessageSizes sizes,
                                   ClientCall*& call) {
  if (header.type != FrameType::kReply) return Violation("a REQUEST from the side that serves");
  if (header.status != 0 && (sizes.body != 0 || sizes.attachment != 0)) {
    return Violation("a payload on a REPLY with an error status");
  }
  call = CallOf(header);
  if (call == nullptr) {
    owner_.OnLateReply();
    return absl::CancelledError("a reply to a call that has ended");
  }
  if (call->reply_ticket_ != 0) return Violation("a second REPLY to one call");
  call->reply_ticket_ = ticket;
  absl::Status refused = CheckReply(sizes);
  // The server did answer: the handler ran.
  if (!refused.ok()) Leave(*call, absl::Status(refused), {});
  return refused;
}

Admission ClientSession::AdmitCall(Ticket ticket, const FrameHeader& header,
                                   std::span<const std::byte> /*head*/, MessageSizes sizes) {
  ClientCall* call = nullptr;
  Admission admission{.refused = Expect(ticket, header, sizes, call), .attachment = {}};
  if (!admission.refused.ok()) return admission;
  Buffer* const own = call->request_.attachment_into;
  if (own != nullptr && *own && sizes.attachment > 0 && sizes.attachment <= own->slot()->capacity) {
    admission.attachment = std::move(*own);
  }
  return admission;
}

void ClientSession::OnCall(const FrameHeader& header, Message&& message) {
  ClientCall* call = CallOf(header);
  if (call != nullptr) return Answer(*call, header, std::move(message));
  owner_.OnLateReply();
}

void ClientSession::OnWholeCall(Ticket ticket, const FrameHeader& header, Message&& message) {
  ClientCall* call = nullptr;
  if (!Expect(ticket, header, {message.body.size(), 0}, call).ok()) return;
  Answer(*call, header, std::move(message));
}

void ClientSession::Answer(ClientCall& call, const FrameHeader& header, Message&& message) {
  if (CallInfo* const info = call.request_.info; info != nullptr) {
    if (info->record_stages) info->stages.answered = Clock::Steady().Now();
    info->reply_metadata = MetadataView(message.head.bytes()).ToMetadata();
  }
  absl::Status status = ReadStatus(header, message.head.bytes());
  if (!status.ok()) status.ErasePayload(kOutcomePayload);  // what it is, is decided here
  if ((header.flags & kFlagNotRun) != 0) {
    ++tally().refused;
    status = Refused(status, call.request_.method->name);
  }
  Leave(call, std::move(status), std::move(message));
}

void ClientSession::OnAbandoned(Ticket ticket, absl::Status status) {
  // Rare: a payload that could not be taken. The ended call is not in the table any more.
  if (ClientCall* call = calls_.FindIf(
          [ticket](const ClientCall& candidate) { return candidate.reply_ticket_ == ticket; })) {
    // CANCELLED is for callers that cancelled: here it was the sender.
    const absl::StatusCode code =
        absl::IsCancelled(status) ? absl::StatusCode::kUnavailable : status.code();
    const absl::Status lost(code, absl::StrCat("the reply of ", peer_address(), " to ",
                                               Absl(call->request_.method->name),
                                               " did not become whole: ", status.message()));
    Leave(*call, WithOutcome(lost, Outcome::kUnknown), {});
  }
}

void ClientSession::OnCancel(uint64_t /*call*/) {
  Violation("a CANCEL from the side that serves").IgnoreError();
}

void ClientSession::AskOffers() {
  ++asked_offers_;
  SendControl({.type = FrameType::kOffers});
}

void ClientSession::OnOffers(const Head& head) {
  if (asked_offers_ == 0) {
    Violation("OFFERS that nobody asked for").IgnoreError();
    return;
  }
  --asked_offers_;
  std::vector<PathOffer> offers;
  FieldReader fields(head.bytes());
  for (Field field; fields.Next(field);) {
    offers.push_back({std::string(field.key), std::string(field.value)});
  }
  owner_.OnOffers(*this, offers);
}

void ClientSession::Probe(Buffer body) {
  probing_ = true;
  Message message;
  EncodeHeader({.type = FrameType::kProbe}, message.head.Resize(kFrameHeaderBytes).data());
  message.body = std::move(body);
  SendAnswer(std::move(message));
}

absl::Status ClientSession::AdmitProbe() {
  if (!probing_) return Violation("a PROBE that answers none");
  probing_ = false;
  return absl::OkStatus();
}

void ClientSession::OnProbe(const FrameHeader& /*header*/, Message&& probe) {
  owner_.OnProbe(*this, std::move(probe.body));
}

void ClientSession::Leave(ClientCall& call, absl::Status&& status, Message&& reply) {
  // A reply can overtake the request's own end: the server refused a payload that is still going
  // out.
  if (call.state_ == ClientCall::State::kSending) connection().Withdraw(call.ticket_);
  calls_.Erase(call);
  owner_.Finish(call, std::move(status), std::move(reply));
  owner_.OnCallLeft(*this);
}

void ClientSession::OnEnded(const absl::Status& reason) {
  // Whoever broke which rule: to a call it is a lost connection, nothing about its arguments.
  const absl::Status status =
      absl::IsInvalidArgument(reason) ? absl::UnavailableError(reason.message()) : reason;
  lost_ = true;
  // Every `done` ran before: what is still here was sent.
  owner_.OnSessionEnded(*this, status);
  calls_.Clear([&](ClientCall& call) {
    if (MakeRepeatable(call)) {
      NoteEnd(loop().now() - call.request_.started);
      ++call.repeats_;
      call.session_ = nullptr;
      return owner_.Return(call);
    }
    const absl::Status& cause = call.state_ == ClientCall::State::kWithdrawn ? call.cause_ : status;
    owner_.Finish(call, WithOutcome(cause, Outcome::kUnknown), {});
  });
}

}  // namespace farcall
