// What arrives at a Wire: SENDs of the peer, from the completion to the receiver.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/probe.h"
#include "farcall/transports/rdma/wire.h"

namespace farcall::rdma {

absl::Status Wire::PostReceive(uint32_t buffer) {
  const ReceiveRequest request =
      receives_->Request(buffer, WorkId{place_, WorkKind::kReceive, buffer}.Pack());
  size_t posted = 0;
  return pair_->PostReceive(std::span(&request, 1), posted);
}

void Wire::OnArrival(Arrival arrival) {
  if (!may_send_) {  // the active side has spoken
    may_send_ = true;
    if (shut_) return SayLastWords();
    FlushSoon();
  }
  if (shut_) return;
  if (started_) {
    TakeIn(arrival);
  } else {
    early_.Push(arrival);
  }
}

// A receive is posted again, in another buffer, before anything is done with what came.
void Wire::TakeIn(Arrival arrival) {
  FARCALL_PROBE(kFound);
  ++counters_.receive_calls;
  absl::Status posted = PostReceive(receives_->Take());
  if (!posted.ok()) {
    Fail(posted);
    return Shut(cause_);
  }
  const std::span<const std::byte> received = receives_->Received(arrival.buffer, arrival.bytes);
  Envelope envelope;
  absl::Status status = DecodeEnvelope(received, envelope);
  if (status.ok()) status = credits_->Received(envelope.kind, envelope.reposts);
  bool lent = false;
  if (status.ok()) {
    slots_.Reposted(credits_->peer_reposts());
    switch (envelope.kind) {
      case Kind::kMessage:
        lent = OnMessage(envelope, arrival);
        break;
      case Kind::kRts:
        status = OnRts(envelope, received);
        break;
      case Kind::kFin:
        status = outgoing_->Fin(envelope.transfer);
        break;
      case Kind::kCancel:
        status = incoming_->Cancel(envelope.transfer);
        break;
      case Kind::kCredit:
        break;
    }
  }
  if (!lent) receives_->Return(arrival.buffer);
  if (!status.ok() && !shut_) return Violation(status);
  if (envelope.kind == Kind::kFin) Finish();
  if (shut_) return;
  // A MESSAGE alone changes nothing that would have to leave.
  if (envelope.kind == Kind::kRts || envelope.kind == Kind::kFin ||
      envelope.kind == Kind::kCancel || outbox_.Front() != nullptr || !controls_.empty() ||
      credits_->CreditDue() || !abandoned_.empty()) {
    FlushSoon();
  }
}

// What a FIN ends is over before what comes behind it: a peer that sends the next request right
// after the FIN of a reply finds room for another reply, however much of a batch has arrived.
void Wire::Finish() {
  if (shut_) return;
  Perform();
  if (!shut_) RunDones();
}

// True: the message keeps the buffer.
bool Wire::OnMessage(const Envelope& envelope, Arrival arrival) {
  const std::span<const std::byte> received = receives_->Received(arrival.buffer, arrival.bytes);
  const Layout layout = LayoutOf(Kind::kMessage, envelope.head, envelope.sizes);
  const Ticket ticket = ++last_ticket_;
  const auto body = static_cast<size_t>(envelope.sizes.body);
  if (envelope.head <= Head::kInlineBytes && envelope.sizes.attachment == 0 && order_->idle() &&
      (body == 0 || receives_->may_lend())) {
    // All of it is here, and nothing can fail.
    Message message;
    std::memcpy(message.head.Resize(envelope.head).data(), received.data() + layout.head,
                envelope.head);
    if (body != 0) message.body = receives_->Lend(arrival.buffer, {layout.body, body});
    CountReceived(message);
    receiver_->OnWhole(ticket, std::move(message));
    return body != 0;
  }
  Admission admission =
      receiver_->Admit(ticket, received.subspan(layout.head, envelope.head), envelope.sizes);
  if (shut_ || !admission.refused.ok()) return false;
  Message message;
  bool lent = false;
  absl::Status status = TakeHead(received.subspan(layout.head, envelope.head), message);
  if (status.ok()) {
    status = TakeParts(envelope, layout, arrival, std::move(admission.attachment), message, lent);
  }
  if (!status.ok()) {
    abandoned_.push_back({ticket, std::move(status)});
  } else if (order_->idle() || envelope.payload() > kSmallPayloadBytes) {
    Deliver(ticket, std::move(message));
  } else if (!order_->Add(ticket, message)) {
    abandoned_.push_back(
        {ticket, absl::ResourceExhaustedError(absl::StrCat(
                     "too many small messages wait for one before them that is still being read: ",
                     order_->held_bytes(), " bytes"))});
  }
  return lent;
}

absl::Status Wire::TakeHead(std::span<const std::byte> bytes, Message& message) {
  Buffer spill;
  if (bytes.size() > Head::kInlineBytes) {
    absl::StatusOr<Buffer> buffer = receive_pool_->Allocate(bytes.size());
    if (!buffer.ok()) return buffer.status();
    spill = *std::move(buffer);
  }
  const std::span<std::byte> head = message.head.Resize(bytes.size(), std::move(spill));
  std::copy(bytes.begin(), bytes.end(), head.begin());
  return absl::OkStatus();
}

// Body and attachment where they lie, if a buffer may be lent for them; else copies.
absl::Status Wire::TakeParts(const Envelope& envelope, const Layout& layout, Arrival arrival,
                             Buffer attachment, Message& message, bool& lent) {
  const auto body = static_cast<size_t>(envelope.sizes.body);
  auto rest = static_cast<size_t>(envelope.sizes.attachment);
  const std::span<const std::byte> received = receives_->Received(arrival.buffer, arrival.bytes);
  const auto copy = [&](size_t at, size_t bytes, Buffer& into) -> absl::Status {
    if (!into) {
      absl::StatusOr<Buffer> buffer = receive_pool_->Allocate(bytes);
      if (!buffer.ok()) return buffer.status();
      into = *std::move(buffer);
    }
    std::memcpy(into.data(), received.data() + at, bytes);
    counters_.payload_bytes_copied += bytes;
    ++tallies_.copies;
    return absl::OkStatus();
  };
  if (rest > 0 && attachment && attachment.slot()->capacity >= rest) {
    attachment.SetView(0, rest);
    absl::Status copied = copy(layout.attachment, rest, attachment);
    if (!copied.ok()) return copied;
    message.attachment = std::move(attachment);
    rest = 0;
  }
  if (body + rest == 0) return absl::OkStatus();
  if (receives_->may_lend()) {
    Buffer lent_rest;
    receives_->Lend(arrival.buffer, {layout.body, body}, {layout.attachment, rest}, message.body,
                    lent_rest);
    if (rest > 0) message.attachment = std::move(lent_rest);
    lent = true;
    return absl::OkStatus();
  }
  absl::Status status = body > 0 ? copy(layout.body, body, message.body) : absl::OkStatus();
  if (status.ok() && rest > 0) status = copy(layout.attachment, rest, message.attachment);
  return status;
}

// What no pool could ever hold need not wait for memory, and nobody behind it.
absl::Status Wire::CheckFits(const MessageSizes& sizes, const Message& message) const {
  absl::Status fits = receive_pool_->CheckFits(sizes.body);
  if (!fits.ok() || message.attachment) return fits;
  return receive_pool_->CheckFits(sizes.attachment);
}

absl::Status Wire::OnRts(const Envelope& envelope, std::span<const std::byte> received) {
  absl::Status status = incoming_->Announce(envelope);
  if (!status.ok()) return status;
  const Layout layout = LayoutOf(Kind::kRts, envelope.head, envelope.sizes);
  const std::span<const std::byte> head = received.subspan(layout.head, envelope.head);
  const Ticket ticket = ++last_ticket_;
  Admission admission = receiver_->Admit(ticket, head, envelope.sizes);
  if (shut_) return absl::OkStatus();
  if (!admission.refused.ok()) {
    incoming_->Refuse(envelope.transfer, admission.refused);
    return absl::OkStatus();
  }
  const auto give_up = [&](absl::Status why) {
    incoming_->Refuse(envelope.transfer, why);
    abandoned_.push_back({ticket, std::move(why)});
    return absl::OkStatus();
  };
  Message message;
  if (absl::Status taken = TakeHead(head, message); !taken.ok()) return give_up(std::move(taken));
  if (envelope.sizes.attachment > 0 && admission.attachment &&
      admission.attachment.slot()->capacity >= envelope.sizes.attachment) {
    admission.attachment.SetView(0, static_cast<size_t>(envelope.sizes.attachment));
    message.attachment = std::move(admission.attachment);
  }
  absl::Status fits = CheckFits(envelope.sizes, message);
  if (!fits.ok()) return give_up(std::move(fits));
  if (envelope.payload() <= kSmallPayloadBytes) order_->Expect(ticket);
  incoming_->Accept(envelope, ticket, std::move(message), loop_.now());
  return absl::OkStatus();
}

// ---- to the receiver ----

void Wire::CountReceived(const Message& message) {
  ++counters_.messages_received;
  counters_.bytes_received += message.head.size() + message.payload_bytes();
}

void Wire::Deliver(Ticket ticket, Message&& message) {
  CountReceived(message);
  receiver_->OnMessage(ticket, std::move(message));
}

void Wire::DeliverInOrder() {
  Ticket ticket = 0;
  Message message;
  while (!shut_ && order_->Next(ticket, message)) Deliver(ticket, std::move(message));
}

void Wire::TellAbandoned() {
  if (abandoned_.empty()) return;
  std::vector<Told> abandoned = std::exchange(abandoned_, {});
  for (Told& told : abandoned) {
    if (shut_) return;
    receiver_->OnAbandoned(told.ticket, std::move(told.status));
  }
}

void Wire::Abandon(Ticket ticket, absl::Status status) {
  if (!live()) return;
  if (incoming_->Abandon(ticket, status)) return FlushSoon();
  if (!order_->GiveUp(ticket)) return;
  abandoned_.push_back({ticket, std::move(status)});
  FlushSoon();
}

}  // namespace farcall::rdma
