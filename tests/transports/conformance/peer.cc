#include "farcall/tests/transports/conformance/peer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/user_memory.h"
#include "farcall/tests/transports/conformance/arena.h"

namespace farcall::testing {

// While one exists, a call of the connection is on the stack and no callback may run.
class Peer::InCall {
 public:
  explicit InCall(Peer& peer) : peer_(peer) { ++peer_.calls_; }
  ~InCall() { --peer_.calls_; }

 private:
  Peer& peer_;
};

Peer::Peer(Arena& arena, std::string name, EventLoop& loop, std::unique_ptr<Connection> connection)
    : arena_(arena),
      name_(std::move(name)),
      loop_(loop),
      connection_(std::move(connection)),
      pool_(connection_->pool()) {}

Peer::~Peer() { Destroy(); }

void Peer::Do(const std::function<void()>& work) { arena_.On(loop_, work); }

void Peer::Start() {
  Do([this] {
    {
      MutexLock lock(mutex_);
      started_ = true;
    }
    InCall call(*this);
    connection_->Start(*this);
  });
}

Sent Peer::Send(Parts parts) {
  Sent sent;
  Do([&] {
    const uint64_t number = last_number_ + 1;
    sent = Send(MakeMessage(*pool_, number, parts), number);
  });
  return sent;
}

Sent Peer::Send(Message message, uint64_t number) {
  Sent sent{0, number};
  const size_t bytes = message.head.size() + message.payload_bytes();
  Do([&] {
    last_number_ = std::max(last_number_, number);
    Ticket expected = 0;
    {
      MutexLock lock(mutex_);
      expected = ++last_sent_;
      unsent_.erase(number);
    }
    InCall call(*this);
    sent.ticket = connection_->Send(std::move(message), [this, expected, number, bytes,
                                                         token = done_token_](SendResult result) {
      if (!result.sent) CheckReturned(result.message, bytes);
      OnDone(expected, number, std::move(result));
    });
    if (sent.ticket == 0) {
      sent.ticket = expected;
      NoteLeft(expected);
    }
    if (sent.ticket != expected) {
      Blame(absl::StrCat("Send returned ticket ", sent.ticket, " instead of ", expected));
    }
  });
  return sent;
}

// A message that left at once ends as others do, but that nobody calls: the hook runs in a later
// turn.
void Peer::NoteLeft(Ticket ticket) {
  Note(absl::StrCat("left ", ticket));
  {
    MutexLock lock(mutex_);
    outcomes_.emplace(ticket, Outcome{absl::OkStatus(), true});
  }
  if (!hooks.done) return;
  loop_.Post([this, ticket, alive = std::weak_ptr<int>(done_token_)] {
    if (alive.expired() || !hooks.done) return;
    SendResult result{absl::OkStatus(), /*sent=*/true, {}};
    hooks.done(ticket, result);
  });
}

void Peer::Withdraw(Ticket ticket) {
  Do([&] {
    InCall call(*this);
    connection_->Withdraw(ticket);
  });
}

void Peer::Abandon(Ticket ticket, absl::Status status) {
  Do([&] {
    InCall call(*this);
    connection_->Abandon(ticket, std::move(status));
  });
}

void Peer::Close(absl::Status status) {
  Do([&] {
    {
      MutexLock lock(mutex_);
      if (!sends_at_close_.has_value()) sends_at_close_ = last_sent_;
    }
    InCall call(*this);
    connection_->Close(std::move(status));
  });
}

void Peer::Destroy() {
  if (destroyed()) return;
  Do([this] {
    {
      MutexLock lock(mutex_);
      destroyed_ = true;
    }
    InCall call(*this);
    connection_ = nullptr;
  });
}

ConnectionInfo Peer::info() {
  ConnectionInfo info;
  Do([&] { info = connection_->info(); });
  return info;
}

void Peer::SendAndForget(Parts parts) {
  Do([&] {
    {
      MutexLock lock(mutex_);
      outcomes_.emplace(++last_sent_, Outcome{});
    }
    InCall call(*this);
    connection_->Send(MakeMessage(*pool_, ++last_number_, parts), nullptr);
  });
}

Admission Peer::Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) {
  CheckCallback("Admit");
  Note(absl::StrCat("Admit ", ticket));
  NoteAdmit(ticket, head, sizes);
  if (!hooks.admit) return {};
  Admission admission = hooks.admit(ticket, sizes);
  if (!admission.refused.ok()) {
    MutexLock lock(mutex_);
    incoming_[ticket].fate = Fate::kRefused;
  }
  return admission;
}

void Peer::NoteAdmit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) {
  const std::optional<Label> label = ReadLabel(head);
  MutexLock lock(mutex_);
  if (ticket != incoming_.size() + 1) {
    Blame(absl::StrCat("Admit of ticket ", ticket, " after ", incoming_.size()));
  }
  Incoming& incoming = incoming_[ticket];
  incoming.small = sizes.body + sizes.attachment <= kSmallPayload;
  if (!label.has_value()) return;
  incoming.number = label->number;
  if (label->body != sizes.body || label->attachment != sizes.attachment) {
    Blame(absl::StrCat("Admit of message ", label->number, " with sizes ", sizes.body, " + ",
                       sizes.attachment, " instead of ", label->body, " + ", label->attachment));
  }
  if (label->number <= last_admitted_number_) {
    Blame(absl::StrCat("the head of message ", label->number, " after that of ",
                       last_admitted_number_));
  }
  last_admitted_number_ = label->number;
}

void Peer::OnMessage(Ticket ticket, Message&& message) {
  CheckCallback("OnMessage");
  Note(absl::StrCat("OnMessage ", ticket));
  CheckMessage(message);
  if (hooks.message) hooks.message(ticket, message);
  NoteEnd("OnMessage", ticket, Fate::kWhole, absl::OkStatus());
}

void Peer::OnWhole(Ticket ticket, Message&& message) {
  if (!message.attachment.empty()) Blame("OnWhole of a message with an attachment");
  const MessageSizes sizes{message.body.size(), 0};
  if (!Admit(ticket, message.head.bytes(), sizes).refused.ok()) return;
  {
    MutexLock lock(mutex_);
    if (sends_at_close_.has_value() || destroyed_) return;  // by the hook
  }
  OnMessage(ticket, std::move(message));
}

void Peer::CheckMessage(const Message& message) {
  for (const Buffer* segment : {&message.body, &message.attachment}) {
    const bool aligned = reinterpret_cast<uintptr_t>(segment->data()) % kBufferAlignment == 0;
    if (!aligned && UserMemory::Of(*segment) == nullptr) {  // which lies where its user wants it
      Blame("OnMessage of a payload that is not aligned");
    }
  }
  if (message.head.size() < sizeof(Label)) return;  // the test checks it
  if (std::string wrong = WhatIsWrong(message); !wrong.empty()) {
    Blame(absl::StrCat("OnMessage with ", wrong));
  }
}

void Peer::OnAbandoned(Ticket ticket, absl::Status status) {
  CheckCallback("OnAbandoned");
  Note(absl::StrCat("OnAbandoned ", ticket, " ", status.ToString()));
  if (status.ok()) Blame("OnAbandoned with an OK status");
  if (hooks.abandoned) hooks.abandoned(ticket);
  NoteEnd("OnAbandoned", ticket, Fate::kAbandoned, std::move(status));
}

void Peer::NoteEnd(const char* what, Ticket ticket, Fate fate, absl::Status status) {
  MutexLock lock(mutex_);
  const auto found = incoming_.find(ticket);
  if (found == incoming_.end() || found->second.fate != Fate::kAdmitted) {
    return Blame(absl::StrCat(what, " of ticket ", ticket, ", which was not pending"));
  }
  Incoming& incoming = found->second;
  incoming.fate = fate;
  incoming.abandoned = std::move(status);
  if (fate != Fate::kWhole) return;
  ++received_;
  order_.push_back(incoming.number);
  if (!incoming.small || incoming.number == 0) return;
  if (incoming.number <= last_small_number_) {
    Blame(absl::StrCat("the small message ", incoming.number, " after ", last_small_number_));
  }
  last_small_number_ = incoming.number;
}

void Peer::OnClosed(absl::Status status) {
  CheckCallback("OnClosed", /*closing=*/true);
  Note(absl::StrCat("OnClosed ", status.ToString()));
  {
    MutexLock lock(mutex_);
    for (Ticket ticket = 1; ticket <= sends_at_close_.value_or(last_sent_); ++ticket) {
      if (!outcomes_.contains(ticket)) Blame(absl::StrCat("OnClosed before done of ", ticket));
    }
  }
  if (hooks.closed) hooks.closed();
  MutexLock lock(mutex_);
  closed_ = std::move(status);
}

void Peer::OnDone(Ticket ticket, uint64_t number, SendResult result) {
  if (!loop_.IsDriver()) Blame("done off its loop");
  if (calls_ > 0) Blame("done inside a call of the connection");
  if (result.status.ok() && !result.sent) Blame("done with OK and unsent");
  Note(
      absl::StrCat("done ", ticket, result.sent ? " sent " : " unsent ", result.status.ToString()));
  const Outcome outcome{result.status, result.sent};
  if (hooks.done) hooks.done(ticket, result);
  MutexLock lock(mutex_);
  if (destroyed_) Blame("done after the connection was destroyed");
  if (!outcome.sent) unsent_.insert(number);
  if (!outcomes_.emplace(ticket, outcome).second) {
    Blame(absl::StrCat("done of ticket ", ticket, " ran twice"));
  }
}

void Peer::CheckReturned(const Message& message, size_t bytes) {
  const size_t back = message.head.size() + message.payload_bytes();
  if (back != bytes) Blame(absl::StrCat("of ", bytes, " bytes unsent, ", back, " came back"));
  if (message.head.size() < sizeof(Label)) return;
  if (std::string wrong = WhatIsWrong(message); !wrong.empty()) {
    Blame(absl::StrCat("an unsent message came back with ", wrong));
  }
}

void Peer::CheckCallback(const char* what, bool closing) {
  if (!loop_.IsDriver()) Blame(absl::StrCat(what, " off its loop"));
  if (calls_ > 0) Blame(absl::StrCat(what, " inside a call of the connection"));
  MutexLock lock(mutex_);
  if (!started_) Blame(absl::StrCat(what, " before Start"));
  if (sends_at_close_.has_value() && !closing) Blame(absl::StrCat(what, " after Close"));
  if (closed_.has_value()) Blame(absl::StrCat(what, " after OnClosed"));
  if (destroyed_) Blame(absl::StrCat(what, " after the connection was destroyed"));
}

void Peer::Note(const std::string& event) {
  const auto now =
      std::chrono::duration_cast<std::chrono::microseconds>(loop_.now().time_since_epoch());
  MutexLock lock(mutex_);
  history_.push_back(absl::StrCat(now.count(), " ", event));
}

void Peer::Blame(const std::string& what) { arena_.Blame(absl::StrCat(name_, ": ", what)); }

size_t Peer::admitted() const {
  MutexLock lock(mutex_);
  return incoming_.size();
}

size_t Peer::received() const {
  MutexLock lock(mutex_);
  return received_;
}

bool Peer::Received(uint64_t number) const {
  MutexLock lock(mutex_);
  return std::find(order_.begin(), order_.end(), number) != order_.end();
}

std::vector<uint64_t> Peer::order() const {
  MutexLock lock(mutex_);
  return order_;
}

std::optional<absl::Status> Peer::Abandoned(uint64_t number) const {
  MutexLock lock(mutex_);
  for (const auto& [ticket, incoming] : incoming_) {
    if (incoming.number == number && incoming.fate == Fate::kAbandoned) return incoming.abandoned;
  }
  return std::nullopt;
}

std::optional<Outcome> Peer::outcome(Sent sent) const {
  MutexLock lock(mutex_);
  const auto found = outcomes_.find(sent.ticket);
  if (found == outcomes_.end()) return std::nullopt;
  return found->second;
}

size_t Peer::outcomes() const {
  MutexLock lock(mutex_);
  return outcomes_.size();
}

size_t Peer::sends() const {
  MutexLock lock(mutex_);
  return last_sent_;
}

std::optional<absl::Status> Peer::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

std::vector<std::string> Peer::history() const {
  MutexLock lock(mutex_);
  return history_;
}

Ticket Peer::TicketOf(uint64_t number) const {
  MutexLock lock(mutex_);
  for (const auto& [ticket, incoming] : incoming_) {
    if (incoming.number == number) return ticket;
  }
  return 0;
}

bool Peer::started() const {
  MutexLock lock(mutex_);
  return started_;
}

bool Peer::destroyed() const {
  MutexLock lock(mutex_);
  return destroyed_;
}

void Peer::ConnectTo(Peer& other) {
  other_ = &other;
  other.other_ = this;
}

std::vector<uint64_t> Peer::UnsentThatArrived() const {
  std::set<uint64_t> unsent;
  {
    MutexLock lock(mutex_);
    unsent = unsent_;
  }
  std::vector<uint64_t> arrived;
  for (uint64_t number : unsent) {
    if (other_ != nullptr && other_->TicketOf(number) != 0) arrived.push_back(number);
  }
  return arrived;
}

}  // namespace farcall::testing
