#include "farcall/tests/fuzz/wire.h"

#include <algorithm>

#include "farcall/tests/fuzz/target.h"

namespace farcall::fuzz {

// The session's hold on a Wire.
class Wire::End final : public Connection {
 public:
  explicit End(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  ~End() override {
    wire_->closed_ = true;
    wire_->receiver_ = nullptr;
    wire_->waiting_.clear();
    wire_->coming_.clear();
    wire_->abandoned_.clear();
  }

  const std::shared_ptr<BufferPool>& pool() const override { return wire_->pool_; }
  void Start(Receiver& receiver) override { wire_->receiver_ = &receiver; }
  Ticket Send(Message&& message, SendDone&& done) override {
    return wire_->Send(std::move(message), std::move(done));
  }
  void Withdraw(Ticket ticket) override { wire_->Withdraw(ticket); }
  void Abandon(Ticket ticket, absl::Status status) override {
    wire_->Abandon(ticket, std::move(status));
  }
  void Close(absl::Status status) override { wire_->Close(std::move(status)); }
  ConnectionInfo info() const override {
    return {
        .transport = "wire", .peer_address = "wire://peer", .local_address = "", .counters = {}};
  }

 private:
  const std::shared_ptr<Wire> wire_;
};

std::unique_ptr<Connection> Wire::Open() { return std::make_unique<End>(shared_from_this()); }

// ---- what the session does ----

FrameHeader Wire::Hear(const Message& message) {
  const absl::StatusOr<FrameHeader> header = DecodeHeader(message.head.bytes());
  FUZZ_CHECK(header.ok());
  FUZZ_CHECK(CheckFields(header->type, message.head.bytes()).ok());
  const bool may_carry = header->type == FrameType::kRequest || header->type == FrameType::kProbe ||
                         (header->type == FrameType::kReply && header->status == 0);
  FUZZ_CHECK(may_carry || message.payload_bytes() == 0);
  return *header;
}

Ticket Wire::Send(Message&& message, SendDone&& done) {
  const FrameHeader header = Hear(message);
  const Ticket ticket = ++last_sent_;
  if (!closed_) {
    FUZZ_CHECK(!last_word_);
    last_word_ = header.type == FrameType::kGoAway && header.status != 0;
    on_heard(header, message);
    if (ticket % 3 == 0 && waiting_.empty()) {  // it leaves at once
      on_left(header);
      message = Message();
      return 0;
    }
  }
  waiting_.push_back({.ticket = ticket,
                      .header = header,
                      .message = std::move(message),
                      .done = std::move(done),
                      .rejected = closed_});
  return ticket;
}

void Wire::Withdraw(Ticket ticket) {
  for (Waiting& waiting : waiting_) waiting.withdrawn |= waiting.ticket == ticket;
}

void Wire::Abandon(Ticket ticket, absl::Status status) {
  if (!closed_ && coming_.erase(ticket) == 1) abandoned_.emplace_back(ticket, std::move(status));
}

void Wire::Close(absl::Status status) {
  if (std::exchange(closed_, true)) return;
  why_ = std::move(status);
}

// ---- what the script does ----

void Wire::Say(Message message, bool later) {
  if (closed_ || receiver_ == nullptr) return;
  const Ticket ticket = ++last_admitted_;
  const MessageSizes sizes{message.body.size(), message.attachment.size()};
  if (!later && sizes.attachment == 0 && ticket % 2 == 0) {
    return receiver_->OnWhole(ticket, std::move(message));
  }
  const Admission admission = receiver_->Admit(ticket, message.head.bytes(), sizes);
  if (!admission.refused.ok() || closed_) return;
  if (later && message.payload_bytes() > 0) {
    coming_.emplace(ticket, std::move(message));
  } else {
    receiver_->OnMessage(ticket, std::move(message));
  }
}

void Wire::Complete(size_t which) {
  if (closed_ || coming_.empty()) return;
  const auto chosen = std::next(coming_.begin(), static_cast<ptrdiff_t>(which % coming_.size()));
  auto whole = coming_.extract(chosen);
  receiver_->OnMessage(whole.key(), std::move(whole.mapped()));
}

void Wire::GiveUp(size_t which) {
  if (closed_ || coming_.empty()) return;
  const auto chosen = std::next(coming_.begin(), static_cast<ptrdiff_t>(which % coming_.size()));
  const Ticket ticket = chosen->first;
  coming_.erase(chosen);
  receiver_->OnAbandoned(ticket, absl::CancelledError("given up by its sender"));
}

void Wire::Finish(Waiting waiting, absl::Status status, bool sent) {
  SendResult result{std::move(status), sent, {}};
  if (sent) {
    on_left(waiting.header);
  } else {
    result.message = std::move(waiting.message);
  }
  if (waiting.done) waiting.done(std::move(result));
}

void Wire::Leave() {
  if (closed_ || waiting_.empty()) return;
  Waiting oldest = std::move(waiting_.front());
  waiting_.pop_front();
  Finish(std::move(oldest), absl::OkStatus(), true);
}

void Wire::Overflow() {
  if (closed_ || waiting_.empty() || waiting_.front().withdrawn) return;
  Waiting oldest = std::move(waiting_.front());
  waiting_.pop_front();
  on_overflow(oldest.header);
  Finish(std::move(oldest), absl::ResourceExhaustedError("the queue is full"), false);
}

void Wire::Cut() { Close(absl::UnavailableError("wire://peer: the connection was cut")); }

void Wire::Turn() {
  if (!closed_) {
    std::deque<Waiting> withdrawn;
    for (Waiting& waiting : std::exchange(waiting_, {})) {
      (waiting.withdrawn ? withdrawn : waiting_).push_back(std::move(waiting));
    }
    for (Waiting& waiting : withdrawn) {
      const bool half_sent = waiting.message.payload_bytes() > 0 && waiting.ticket % 3 == 0;
      Finish(std::move(waiting), absl::CancelledError("withdrawn"), half_sent);
    }
    for (auto& [ticket, status] : std::exchange(abandoned_, {})) {
      if (!closed_) receiver_->OnAbandoned(ticket, std::move(status));
    }
    return;
  }
  coming_.clear();
  for (Waiting& waiting : std::exchange(waiting_, {})) {
    // Whether the peer has a part of it nobody knows: every other one.
    const bool sent = !waiting.rejected && !waiting.withdrawn && waiting.ticket % 2 == 0;
    Finish(std::move(waiting), absl::UnavailableError("wire://peer: closed"), sent);
  }
  if (receiver_ != nullptr) std::exchange(receiver_, nullptr)->OnClosed(why_);
}

}  // namespace farcall::fuzz
