#include "farcall/transports/faulty/connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/limits.h"

namespace farcall::faulty {
namespace {

// A cut "while" a message is on its way: within the time of some chunks.
constexpr Duration kMoment = std::chrono::milliseconds(2);

size_t SizeOf(const Message& message) { return message.head.size() + message.payload_bytes(); }

}  // namespace

FaultyConnection::FaultyConnection(EventLoop& loop, std::unique_ptr<Connection> inner,
                                   const FaultPlan& plan, Origin origin)
    : loop_(loop),
      plan_(plan),
      origin_(origin),
      dice_(origin.seed ^ Dice(origin.number).Throw()),
      outbox_(loop, [this] { ReleaseDue(); }),
      dones_(loop, [this] { RunDueDones(); }),
      inbox_(loop, [this] { DeliverDue(); }),
      inner_(std::move(inner)) {
  if (dice_.Happens(plan_.cut_after.probability)) {
    CutIn(dice_.Between(plan_.cut_after.least, plan_.cut_after.most), "by its age");
  }
}

void FaultyConnection::Start(Receiver& receiver) {
  receiver_ = &receiver;
  inner_->Start(*this);
}

// ---- sending ----

Ticket FaultyConnection::Send(Message&& message, SendDone&& done) {
  const Ticket ticket = ++last_sent_;
  absl::Status status = CheckRoomFor(message);
  if (!status.ok()) {
    EndSend(ticket, std::move(done), {std::move(status), /*sent=*/false, std::move(message)},
            Duration::zero());
    return ticket;
  }
  pending_bytes_ += SizeOf(message);
  Held held{ticket, std::move(message), std::move(done)};
  if (ticket == plan_.cut_at_send || dice_.Happens(plan_.cut_on_send)) {
    CutAboutSend(std::move(held));
    return ticket;
  }
  const Duration delay = dice_.Wait(plan_.send);
  if (delay == Duration::zero() && outbox_.empty()) {
    Pass(std::move(held));
    return ticket;
  }
  last_release_ = std::max(last_release_, After(loop_.now(), delay));
  outbox_.Add(last_release_, std::move(held));
  return ticket;
}

absl::Status FaultyConnection::CheckRoomFor(const Message& message) const {
  if (shut_ || inner_gone_) {
    return absl::UnavailableError(
        absl::StrCat(inner_->info().peer_address, ": this connection is closed"));
  }
  const TransportLimits& limits = plan_.limits;
  if (outbox_.size() + passed_.size() < limits.max_queued_messages &&
      (pending_bytes_ == 0 || pending_bytes_ + SizeOf(message) <= limits.max_queued_bytes)) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(inner_->info().peer_address, ": ", outbox_.size() + passed_.size(),
                   " messages of ", pending_bytes_, " bytes wait to be sent (FaultPlan::limits)"));
}

void FaultyConnection::Pass(Held held) {
  Passed& passed = passed_[held.ticket];
  passed.bytes = SizeOf(held.message);
  passed.done = std::move(held.done);
  passed.inner_ticket = inner_->Send(
      std::move(held.message),
      [this, ticket = held.ticket](SendResult result) { OnInnerDone(ticket, std::move(result)); });
  if (passed.inner_ticket != 0) return;
  Passed left = std::move(passed_.extract(held.ticket).mapped());
  pending_bytes_ -= left.bytes;
  EndSend(held.ticket, std::move(left.done), {absl::OkStatus(), /*sent=*/true, {}},
          dice_.Wait(plan_.done));
}

void FaultyConnection::ReleaseDue() {
  while (std::optional<Held> held = outbox_.TakeDue()) Pass(*std::move(held));
}

void FaultyConnection::OnInnerDone(Ticket ticket, SendResult result) {
  Passed passed = std::move(passed_.extract(ticket).mapped());
  pending_bytes_ -= passed.bytes;
  const Duration delay = dice_.Wait(plan_.done);
  if (delay > Duration::zero() && !passed.withdrawn) {
    EndSend(ticket, std::move(passed.done), std::move(result), delay);
  } else if (passed.done) {
    passed.done(std::move(result));
  }
}

void FaultyConnection::EndSend(Ticket ticket, SendDone done, SendResult result, Duration delay) {
  if (!done) return;
  // Nothing is due later than the end of the connection.
  const TimePoint due = shut_ || inner_gone_ ? loop_.now() : After(loop_.now(), delay);
  dones_.Add(due, {ticket, std::move(done), std::move(result)});
}

void FaultyConnection::FailHeld(const absl::Status& status) {
  while (std::optional<Held> held = outbox_.TakeFirst()) {
    pending_bytes_ -= SizeOf(held->message);
    EndSend(held->ticket, std::move(held->done), {status, /*sent=*/false, std::move(held->message)},
            Duration::zero());
  }
}

void FaultyConnection::RunDueDones() {
  // Those that are added meanwhile wait for the next turn.
  for (size_t left = dones_.size(); left > 0; --left) {
    std::optional<Ended> ended = dones_.TakeDue();
    if (!ended.has_value()) return;
    ended->done(std::move(ended->result));
  }
}

void FaultyConnection::RunAllDones() {
  for (size_t left = dones_.size(); left > 0; --left) {
    Ended ended = *dones_.TakeFirst();
    ended.done(std::move(ended.result));
  }
}

void FaultyConnection::Withdraw(Ticket ticket) {
  std::optional<Held> held =
      outbox_.TakeIf([ticket](const Held& entry) { return entry.ticket == ticket; });
  if (held.has_value()) {
    pending_bytes_ -= SizeOf(held->message);
    EndSend(ticket, std::move(held->done),
            {absl::CancelledError("withdrawn before it was sent"), /*sent=*/false,
             std::move(held->message)},
            Duration::zero());
    return;
  }
  const auto passed = passed_.find(ticket);
  if (passed != passed_.end()) {
    passed->second.withdrawn = true;
    inner_->Withdraw(passed->second.inner_ticket);
    return;
  }
  // It is over and its done is late by our own doing: no longer than a turn or two from now.
  std::optional<Ended> late =
      dones_.TakeIf([ticket](const Ended& entry) { return entry.ticket == ticket; });
  if (late.has_value()) dones_.Add(loop_.now(), *std::move(late));
}

// ---- receiving ----

Admission FaultyConnection::Admit(Ticket ticket, std::span<const std::byte> head,
                                  MessageSizes sizes) {
  const bool cut = ++admitted_ == plan_.cut_at_receive || dice_.Happens(plan_.cut_on_receive);
  const uint64_t moment = cut ? dice_.Throw(3) : 3;
  if (moment == 0) {
    Cut("before a message was admitted");
    return {.refused = absl::UnavailableError("the connection was cut"), .attachment = {}};
  }
  Admission admission = receiver_->Admit(ticket, head, sizes);
  if (moment == 1) Cut("after a message was admitted");
  if (moment == 2 && admission.refused.ok()) cut_after_message_ = ticket;
  return admission;
}

void FaultyConnection::OnMessage(Ticket ticket, Message&& message) {
  if (shut_) return;  // it was cut when this one was admitted
  const TimePoint due = DeliveryTime(message.payload_bytes());
  Delivery delivery{Delivery::Kind::kMessage, ticket, std::move(message), {}};
  if (due > loop_.now() || !inbox_.empty()) {
    inbox_.Add(due, std::move(delivery));
  } else {
    Deliver(std::move(delivery));
  }
}

TimePoint FaultyConnection::DeliveryTime(size_t payload_bytes) {
  TimePoint& last = last_delivery_[payload_bytes > kSmallPayloadBytes ? 1 : 0];
  TimePoint due = After(loop_.now(), dice_.Wait(plan_.deliver));
  // Small ones keep their order; large ones are free, but share the slow wire.
  if (payload_bytes <= kSmallPayloadBytes || plan_.bytes_per_second > 0) due = std::max(due, last);
  if (plan_.bytes_per_second > 0) {
    const double seconds =
        static_cast<double>(payload_bytes) / static_cast<double>(plan_.bytes_per_second);
    due += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }
  last = std::max(last, due);
  return due;
}

void FaultyConnection::OnAbandoned(Ticket ticket, absl::Status status) {
  receiver_->OnAbandoned(ticket, std::move(status));
}

void FaultyConnection::OnClosed(absl::Status status) {
  inner_gone_ = true;
  FailHeld(status.ok() ? absl::CancelledError("the connection was closed") : status);
  Delivery delivery{Delivery::Kind::kClosed, 0, {}, std::move(status)};
  if (inbox_.empty()) {
    Deliver(std::move(delivery));
  } else {
    inbox_.Add(inbox_.last(), std::move(delivery));
  }
}

void FaultyConnection::DeliverDue() {
  while (std::optional<Delivery> delivery = inbox_.TakeDue()) Deliver(*std::move(delivery));
}

void FaultyConnection::Deliver(Delivery delivery) {
  switch (delivery.kind) {
    case Delivery::Kind::kMessage:
      receiver_->OnMessage(delivery.ticket, std::move(delivery.message));
      if (delivery.ticket == cut_after_message_) Cut("after a message was delivered");
      return;
    case Delivery::Kind::kAbandoned:
      receiver_->OnAbandoned(delivery.ticket, std::move(delivery.status));
      return;
    case Delivery::Kind::kClosed:
      closed_told_ = true;
      RunAllDones();
      receiver_->OnClosed(std::move(delivery.status));
      return;
  }
}

void FaultyConnection::Abandon(Ticket ticket, absl::Status status) {
  std::optional<Delivery> whole = inbox_.TakeIf([ticket](const Delivery& entry) {
    return entry.kind == Delivery::Kind::kMessage && entry.ticket == ticket;
  });
  if (whole.has_value()) {
    inbox_.Add(loop_.now(), {Delivery::Kind::kAbandoned, ticket, {}, std::move(status)});
  } else {
    inner_->Abandon(ticket, std::move(status));
  }
}

// ---- the end ----

void FaultyConnection::Close(absl::Status status) {
  if (shut_) return;
  shut_ = true;
  scissors_.Disarm();
  inbox_.Clear();
  FailHeld(status.ok() ? absl::CancelledError("the connection was closed") : status);
  if (inner_gone_) {
    if (closed_told_) return;
    // The peer was first, and the user had not heard yet.
    inbox_.Add(loop_.now(), {Delivery::Kind::kClosed, 0, {}, std::move(status)});
  } else {
    inner_->Close(std::move(status));
  }
}

void FaultyConnection::CutAboutSend(Held held) {
  const uint64_t moment = dice_.Throw(3);
  if (moment == 0) {
    outbox_.Add(std::max(last_release_, loop_.now()), std::move(held));
    return Cut("before a message was sent");
  }
  while (std::optional<Held> earlier = outbox_.TakeFirst()) Pass(*std::move(earlier));
  Pass(std::move(held));
  if (moment == 1) return Cut("after a message was sent");
  CutIn(dice_.Between(Duration::zero(), kMoment), "while a message was on its way");
}

void FaultyConnection::CutIn(Duration delay, const char* when) {
  scissors_.when = when;
  loop_.timers().Arm(scissors_, After(loop_.now(), delay));
}

void FaultyConnection::Cut(const char* when) {
  if (inner_gone_) return;
  Close(absl::UnavailableError(absl::StrCat(inner_->info().peer_address, ": cut by the fault plan ",
                                            when, " (seed ", origin_.seed, ", connection ",
                                            origin_.number, ")")));
}

}  // namespace farcall::faulty
