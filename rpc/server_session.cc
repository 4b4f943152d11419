#include "farcall/rpc/server_session.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/log.h"
#include "farcall/rpc/metadata.h"
#include "farcall/rpc/planted.h"
#include "farcall/rpc/probe.h"

namespace farcall {
namespace {

// Room for so many calls is made with a connection's first one.
constexpr size_t kFirstCalls = 16;

// A hostile timeout must not overflow the clock; nobody waits longer than this.
constexpr uint64_t kLongestTimeoutNs = uint64_t{365} * 24 * 3600 * 1'000'000'000;

absl::Status TooLarge(absl::string_view what, absl::string_view method, uint64_t bytes,
                      absl::string_view option, uint64_t limit) {
  return absl::ResourceExhaustedError(absl::StrCat(what, " of ", method, " has ", bytes,
                                                   " bytes; this server takes ", limit,
                                                   " (ServerOptions::limits.", option, ")"));
}

// "Sizes may be anything": their sum, or the largest number there is.
uint64_t Total(MessageSizes sizes) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  return sizes.attachment > kMax - sizes.body ? kMax : sizes.body + sizes.attachment;
}

// When a request of `bytes` that is announced at `now` must be whole.
TimePoint WholeBy(TimePoint now, uint64_t bytes, const KeepaliveOptions& keepalive) {
  if (keepalive.min_bytes_per_second == 0) return TimePoint::max();
  if (bytes < keepalive.min_bytes_per_second) return After(now, keepalive.stall_timeout);
  const Duration longest(static_cast<Duration::rep>(kLongestTimeoutNs));
  const auto longest_s = std::chrono::duration_cast<std::chrono::seconds>(longest).count();
  const uint64_t seconds =
      std::min(bytes / keepalive.min_bytes_per_second, static_cast<uint64_t>(longest_s));
  return After(After(now, keepalive.stall_timeout), std::chrono::seconds(seconds));
}

}  // namespace

ServerSession::ServerSession(ServerLoop& home, std::unique_ptr<Connection> connection,
                             SessionOptions options)
    : Session(home.loop(), std::move(connection), std::move(options)),
      home_(home),
      peer_(std::make_shared<PeerIdentity>()) {
  peer_->address = peer_address();
  peer_->transport = connection_info().transport;
}

ServerSession::~ServerSession() {
  if (anchor_ != nullptr) *anchor_ = nullptr;
  LeavePaths();
}

void ServerSession::EnterPaths() {
  const std::string& token = peer_hello().token;
  PathHost* const host = connection().path_host().get();
  if (host == nullptr) {
    if (token.empty()) return;
    return End(absl::FailedPreconditionError("this address offers no paths and knows no tokens"));
  }
  anchor_ = std::make_shared<ServerSession*>(this);
  auto end = [loop = home_.shared_loop(), anchor = anchor_](const absl::Status& reason) {
    loop->Post([anchor, reason] {
      if (*anchor != nullptr) (*anchor)->End(reason);
    });
  };
  const absl::StatusOr<uint64_t> entered =
      host->Enter(connection_info(), token, std::move(end), loop().now());
  if (!entered.ok()) return End(entered.status());
  path_id_ = *entered;
  in_paths_ = true;
}

void ServerSession::LeavePaths() {
  if (std::exchange(in_paths_, false)) connection().path_host()->Leave(path_id_);
}

void ServerSession::OnOffers(const Head& head) {
  if (head.size() != kFrameHeaderBytes) {
    Violation("offers from the side that calls").IgnoreError();
    return;
  }
  HeadBuilder answer(*connection().pool());
  if (in_paths_) {
    for (const PathOffer& offer :
         connection().path_host()->Offer(path_id_, connection_info(), loop().now())) {
      if (!answer.Add({FieldKind::kOffer, offer.name, offer.value}).ok()) break;
    }
  }
  Message message;
  message.head = answer.Finish({.type = FrameType::kOffers});
  SendAnswer(std::move(message));
}

absl::Status ServerSession::AdmitProbe() {
  if (std::exchange(probe_coming_, true) || unread_bytes() > kMaxProbeBytes) {
    return Violation("a PROBE before the last one was through");
  }
  return absl::OkStatus();
}

void ServerSession::OnProbe(const FrameHeader& header, Message&& probe) {
  probe_coming_ = false;
  EncodeHeader(header, probe.head.Resize(kFrameHeaderBytes).data());
  SendAnswer(std::move(probe));
}

void ServerSession::OnReady() {
  // No handler has seen peer_ yet: calls come after HELLO.
  peer_->authentication = peer_hello().authentication;
  EnterPaths();
  if (ready() && home_.shared().draining.load(std::memory_order_relaxed)) Drain();
}

void ServerSession::Drain() {
  if (FARCALL_PLANTED(kDrainForgetsIdlePeers) && calls_.empty()) return;
  NoteDraining();
  SendGoAway(absl::OkStatus());
  if (LogEnabled(LogLevel::kInfo)) {
    Log(LogLevel::kInfo, absl::StrCat("server: told ", peer_address(), " that it drains (",
                                      calls_.size(), " calls under way)"));
  }
}

void ServerSession::EndIfIdle() {
  if (FARCALL_PLANTED(kDrainForgetsIdlePeers)) return;
  const bool carried_on = in_paths_ && connection().path_host()->Paths(path_id_) > 0;
  const bool idle = calls_.empty() && unread_bytes() == 0 && !carried_on;
  if (idle && was_idle_) End(absl::UnavailableError("the server is shutting down"));
  was_idle_ = idle;
}

absl::Status ServerSession::Refusal(const FrameHeader& header, const BoundMethod* method,
                                    MessageSizes sizes) const {
  const ServerShared& shared = home_.shared();
  const MessageLimits& limits = shared.options.limits;
  if (shared.draining.load(std::memory_order_relaxed)) {
    return absl::UnavailableError("the server is shutting down and takes no new calls");
  }
  if (method == nullptr) return shared.methods.Unknown(header.method);
  const absl::string_view name = Absl(method->info->name);
  if (method->run == nullptr) {
    return absl::UnimplementedError(absl::StrCat(name, " is not served here: ",
                                                 method->info->streaming == Streaming::kNone
                                                     ? "the service does not implement it"
                                                     : "this version has no streams"));
  }
  if (sizes.body > limits.max_body_bytes) {
    return TooLarge("a request", name, sizes.body, "max_body_bytes", limits.max_body_bytes);
  }
  if (sizes.attachment > limits.max_attachment_bytes) {
    return TooLarge("an attachment", name, sizes.attachment, "max_attachment_bytes",
                    limits.max_attachment_bytes);
  }
  return CheckRoom(Total(sizes));
}

absl::Status ServerSession::CheckRoom(uint64_t bytes) const {
  const MessageLimits& limits = home_.shared().options.limits;
  if (calls_.size() >= limits.max_calls_in_flight && !FARCALL_PLANTED(kServerTakesTooMany)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(calls_.size(),
                     " calls of this connection are in flight already "
                     "(ServerOptions::limits.max_calls_in_flight)"));
  }
  const uint64_t room =
      limits.max_held_request_bytes - std::min(limits.max_held_request_bytes, held_bytes());
  if (bytes > kSmallPayloadBytes && held_bytes() > 0 && bytes > room) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a request of ", bytes, " bytes does not fit beside the ", held_bytes(),
        " of this connection's calls in flight; the server holds ", limits.max_held_request_bytes,
        " (ServerOptions::limits.max_held_request_bytes): wait for their replies"));
  }
  if (unread_bytes() > limits.max_unread_reply_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(unread_bytes(),
                     " bytes of replies wait for this connection to read them; the "
                     "server holds ",
                     limits.max_unread_reply_bytes,
                     " (ServerOptions::limits.max_unread_reply_bytes): read them first"));
  }
  return absl::OkStatus();
}

absl::Status ServerSession::Take(Ticket ticket, const FrameHeader& header, MessageSizes sizes,
                                 ServerCall*& call) {
  if (header.type != FrameType::kRequest) return Violation("a REPLY from the side that calls");
  if (calls_.contains(header.call)) return Violation("a call id that is in flight already");
  const BoundMethod* method = home_.shared().methods.Find(header.method);
  if (absl::Status refusal = Refusal(header, method, sizes); !refusal.ok()) {
    Refuse(header.call, method == nullptr ? nullptr : method->info, refusal);
    return refusal;
  }
  call = &home_.TakeCall();
  call->session_ = this;
  call->bound_ = method;
  call->method_ = method->info;
  call->tally_ = &home_.tally().methods.Of(*method->info);
  call->limits_ = &home_.shared().options.limits;
  // They stay with a recycled call until it serves another connection, or this one ends.
  if (call->peer_ != peer_) {
    call->pool_ = connection().pool();
    call->peer_ = peer_;
  }
  call->clock_ = &loop().clock();
  call->id_ = header.call;
  call->ticket_ = ticket;
  call->expires_at_ =
      loop().now() +
      Duration(static_cast<Duration::rep>(std::min(header.timeout_ns, kLongestTimeoutNs)));
  call->request_bytes_ = Total(sizes);
  tally().Reserve();
  return absl::OkStatus();
}

void ServerSession::List(ServerCall& call, TimePoint due) {
  // A smaller table would grow now and then as calls come and go.
  if (calls_.capacity() == 0) calls_.reserve(kFirstCalls);
  calls_.emplace(call.id_, &call);  // first: it may find no memory, and a timer must end
  call.listed_ = true;
  loop().timers().Arm(call, due);
  tally().held_bytes += call.request_bytes_;
}

Admission ServerSession::AdmitCall(Ticket ticket, const FrameHeader& header,
                                   std::span<const std::byte> /*head*/, MessageSizes sizes) {
  ServerCall* call = nullptr;
  absl::Status refused = Take(ticket, header, sizes, call);
  if (!refused.ok()) return {.refused = std::move(refused), .attachment = {}};
  call->whole_by_ = WholeBy(loop().now(), call->request_bytes_, options().keepalive);
  List(*call, std::min(call->expires_at_, call->whole_by_));
  if (call->request_bytes_ > kSmallPayloadBytes) large_.emplace(ticket, header.call);
  return {};
}

void ServerSession::OnCall(const FrameHeader& header, Message&& message) {
  const auto found = calls_.find(header.call);
  if (found == calls_.end()) return;  // it was given up between its announcement and now
  ServerCall& call = *found->second;
  if (call.request_bytes_ > kSmallPayloadBytes) large_.erase(call.ticket_);
  if (call.whole_by_ < call.expires_at_) loop().timers().Arm(call, call.expires_at_);
  Serve(call, std::move(message));
}

void ServerSession::OnWholeCall(Ticket ticket, const FrameHeader& header, Message&& message) {
  ServerCall* call = nullptr;
  if (!Take(ticket, header, {message.body.size(), 0}, call).ok()) return;
  // A handler that has finished when it returns is not overtaken by its deadline or a CANCEL.
  if (!call->bound_->at_once) List(*call, call->expires_at_);
  Serve(*call, std::move(message));
}

void ServerSession::Serve(ServerCall& call, Message&& message) {
  call.tally_->bytes_received += message.head.size() + message.payload_bytes();
  call.request_ = std::move(message);
  call.whole_ = true;
  call.whole_at_ = loop().now();
  const absl::Status verified = call.bound_->verify(call.body(), call.limits());
  FARCALL_PROBE(kVerified);
  if (!verified.ok()) {
    Refuse(call.id_, call.method_,
           absl::InvalidArgumentError(absl::StrCat("the request of ", Absl(call.method_->name),
                                                   " cannot be read: ", verified.message())));
    Drop(call);
    return;
  }
  if (const absl::Status queued = home_.Queue(*call.bound_); !queued.ok()) {
    Refuse(call.id_, call.method_, queued);
    Drop(call);
    return;
  }
  ++tally().started;
  ++call.tally_->started;
  home_.Dispatch(call);
}

void ServerSession::OnAbandoned(Ticket ticket, absl::Status status) {
  // A payload that its sender gave up, or that no memory could be had for. Large ones are found
  // without a search, for a peer can begin and give up many.
  if (const auto found = large_.find(ticket); found != large_.end()) {
    const auto call = calls_.find(found->second);
    large_.erase(found);
    if (call == calls_.end() || call->second->ticket_ != ticket) return;  // given up here
    Refuse(call->first, call->second->method_, status);
    Drop(*call->second);
    return;
  }
  for (const auto& [id, call] : calls_) {
    if (call->ticket_ != ticket || call->whole_) continue;
    Refuse(id, call->method_, status);
    Drop(*call);
    return;
  }
}

void ServerSession::OnCancel(uint64_t id) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;  // it crossed the reply
  ServerCall& call = *found->second;
  if (call.whole_) {
    call.Cancel();
  } else {
    const Ticket ticket = call.ticket_;
    Drop(call);
    connection().Abandon(ticket, absl::CancelledError("cancelled by the caller"));
  }
}

void ServerSession::Expire(ServerCall& call) {
  if (call.whole_) {
    call.Cancel();
    return;
  }
  const Ticket ticket = call.ticket_;
  const absl::Status late =
      loop().now() >= call.expires_at_
          ? absl::DeadlineExceededError(absl::StrCat("the deadline of ", Absl(call.method_->name),
                                                     " passed before its request was whole"))
          : absl::UnavailableError(
                absl::StrCat("the request of ", Absl(call.method_->name), ", ", call.request_bytes_,
                             " bytes, came too slowly (ServerOptions::keepalive.stall_timeout and "
                             "min_bytes_per_second)"));
  Refuse(call.id_, call.method_, late);
  Drop(call);
  connection().Abandon(ticket, late);
}

void ServerSession::Refuse(uint64_t id, const MethodInfo* method, const absl::Status& status) {
  ++Of(home_.tally().calls_refused, status.code());
  ++tally().refused;
  if (method != nullptr) ++home_.tally().methods.Of(*method).refused;
  if (LogEnabled(LogLevel::kDebug)) {
    Log(LogLevel::kDebug,
        absl::StrCat("server: refused a call of ", peer_address(), " to ",
                     method == nullptr ? "an unknown method" : Absl(method->name), ": ",
                     absl::StatusCodeToString(status.code()), ": ", status.message()));
  }
  SendStatus(id, status, kFlagNotRun, {}, {});
}

// Ends a call whose handler does not run.
void ServerSession::Drop(ServerCall& call) {
  Forget(call);
  home_.GiveBack(call);
}

void ServerSession::Forget(const ServerCall& call) {
  if (!call.listed_) return;
  tally().held_bytes -= call.request_bytes_;
  calls_.erase(call.id_);
}

absl::StatusCode ServerSession::Reply(ServerCall& call) {
  absl::Status status = std::move(call.status_);
  const uint64_t body = call.reply_body_.size();
  const uint64_t attachment = call.reply_attachment_.size();
  if (status.ok() &&
      (body > peer_hello().max_body_bytes || attachment > peer_hello().max_attachment_bytes)) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("the reply of ", Absl(call.method_->name), " has ", body,
                     " bytes and an attachment of ", attachment, "; the caller takes ",
                     peer_hello().max_body_bytes, " and ", peer_hello().max_attachment_bytes,
                     " (its limits.max_body_bytes and limits.max_attachment_bytes)"));
  }
  const uint8_t flags = FARCALL_PLANTED(kErrorsDidNotRun) && !status.ok() ? kFlagNotRun : 0;
  Message message;
  message.body = std::move(call.reply_body_);
  message.attachment = std::move(call.reply_attachment_);
  const Sent sent = SendStatus(call.id_, status, flags, call.reply_metadata_, std::move(message));
  ServerTally& counts = home_.tally();
  ++(sent.code == absl::StatusCode::kOk ? counts.replies_ok : counts.replies_failed);
  call.tally_->bytes_sent += sent.bytes;
  return sent.code;
}

ServerSession::Sent ServerSession::SendStatus(uint64_t id, const absl::Status& status,
                                              uint8_t flags, const Metadata& metadata,
                                              Message&& message) {
  absl::Status made;
  if (status.ok()) {
    made = MakeHead(metadata, *connection().pool(), message.head);
  } else {
    message = Message();
    HeadBuilder head(*connection().pool());
    made = AddMetadata(metadata, head);
    AddStatus(status, head);
    message.head = head.Finish({});
  }
  if (!made.ok()) {
    const absl::Status unsendable(made.code(),
                                  absl::StrCat("the reply's metadata: ", made.message()));
    return SendStatus(id, status.ok() ? unsendable : status, flags, {}, {});
  }
  const absl::StatusCode code = status.code();
  EncodeHeader({.type = FrameType::kReply,
                .flags = flags,
                .status = static_cast<uint16_t>(code),
                .call = id},
               message.head.data());
  const Sent sent{code, message.head.size() + message.payload_bytes()};
  FARCALL_PROBE(kHanded);
  SendAnswer(std::move(message));
  return sent;
}

// A payload that finds no room costs its own call; its status finds some.
bool ServerSession::OnAnswerUnsent(const SendResult& unsent) {
  const uint64_t bytes = unsent.message.payload_bytes();
  if (unsent.sent || bytes == 0) return false;
  const absl::StatusOr<FrameHeader> header = DecodeHeader(unsent.message.head.bytes());
  if (!header.ok() || header->type != FrameType::kReply) return false;
  SendStatus(header->call,
             absl::ResourceExhaustedError(absl::StrCat(
                 "the reply of ", bytes, " bytes was not sent: ", unsent.status.message())),
             0, {}, {});
  return true;
}

size_t ServerSession::Orphan() {
  const size_t orphans = calls_.size();
  for (auto& [id, call] : calls_) {
    call->session_ = nullptr;
    if (call->whole_) {
      call->Cancel();
    } else {
      home_.GiveBack(*call);
    }
  }
  calls_.clear();
  large_.clear();
  tally().held_bytes = 0;
  return orphans;
}

void ServerSession::OnEnded(const absl::Status& status) {
  // A broken rule or limit is for somebody to look at; that peers go is not.
  const bool fault = absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
                     absl::IsResourceExhausted(status);
  if (fault || LogEnabled(LogLevel::kInfo)) {
    const std::string line =
        fault && !greeted()
            ? absl::StrCat("server: refused ", peer_address(), ": ", status.message())
            : absl::StrCat("server: connection of ", peer_address(), " ended: ", status.message(),
                           " (", calls_.size(), " calls under way)");
    fault ? home_.Warn(line) : Log(LogLevel::kInfo, line);
  }
  ServerTally& counts = home_.tally();
  ++Of(greeted() ? counts.connections_closed : counts.handshakes_failed, status.code());
  LeavePaths();
  Orphan();
  home_.Forget(*peer_);
  home_.Bury(*this);
}

}  // namespace farcall
