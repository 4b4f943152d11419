// The receiving half of LoopbackConnection.

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/loopback/connection.h"
#include "farcall/transports/loopback/limits.h"

namespace farcall::loopback {

void LoopbackConnection::Deliver(std::vector<Letter>& letters) {
  for (Letter& letter : letters) {
    if (closed_) break;
    if (letter.given_up) {
      OnGivenUp(letter.ticket);
    } else {
      Receive(std::move(letter));
    }
  }
  letters.clear();
}

void LoopbackConnection::Receive(Letter letter) {
  const bool large = IsLarge(letter.message);
  const MessageSizes sizes{letter.message.body.size(), letter.message.attachment.size()};
  counters_.bytes_received += letter.message.head.size();

  const auto body = reinterpret_cast<uintptr_t>(letter.message.body.data());
  if (!large && sizes.attachment == 0 && body % kBufferAlignment == 0) {
    counters_.bytes_received += sizes.body;
    ++counters_.messages_received;
    receiver_->OnWhole(++last_admitted_, std::move(letter.message));
    return;
  }
  Admission admission = receiver_->Admit(++last_admitted_, letter.message.head.bytes(), sizes);
  if (closed_) return;
  if (!admission.refused.ok()) {
    if (large) theirs_->PutReceipt({letter.ticket, 0});
    return;
  }
  Incoming incoming(last_admitted_, letter.ticket, std::move(letter.message));
  absl::Status status = incoming.Aim(std::move(admission.attachment), *options_.pool);
  if (!status.ok()) {
    if (large) theirs_->PutReceipt({letter.ticket, 0});
    receiver_->OnAbandoned(incoming.ticket(), std::move(status));
    return;
  }
  if (large) {
    transfers_.push_back(std::move(incoming));
    return;
  }
  counters_.payload_bytes_copied += incoming.Move(kLargePayload);
  counters_.bytes_received += incoming.moved();
  DeliverWhole(std::move(incoming));
}

void LoopbackConnection::OnGivenUp(Ticket senders) {
  const auto given_up =
      std::find_if(transfers_.begin(), transfers_.end(),
                   [senders](const Incoming& transfer) { return transfer.senders() == senders; });
  if (given_up == transfers_.end()) return;  // whole, refused or abandoned before
  const Ticket ticket = given_up->ticket();
  transfers_.erase(given_up);
  receiver_->OnAbandoned(ticket, absl::CancelledError("the sender withdrew the message"));
}

void LoopbackConnection::MoveOneChunk() {
  if (closed_ || transfers_.empty()) return;
  Incoming transfer = std::move(transfers_.front());
  transfers_.pop_front();
  const size_t before = transfer.moved();
  counters_.payload_bytes_copied += transfer.Move(kChunkBytes);
  counters_.bytes_received += transfer.moved() - before;
  if (!transfer.whole()) {
    transfers_.push_back(std::move(transfer));
    return;
  }
  theirs_->PutReceipt({transfer.senders(), transfer.moved()});
  DeliverWhole(std::move(transfer));
}

void LoopbackConnection::DeliverWhole(Incoming incoming) {
  ++counters_.messages_received;
  receiver_->OnMessage(incoming.ticket(), incoming.Take());
}

void LoopbackConnection::Abandon(Ticket ticket, absl::Status status) {
  assert(loop_.IsDriver());
  const auto found =
      std::find_if(transfers_.begin(), transfers_.end(),
                   [ticket](const Incoming& transfer) { return transfer.ticket() == ticket; });
  if (found == transfers_.end()) return;
  theirs_->PutReceipt({found->senders(), found->moved()});
  transfers_.erase(found);
  abandoned_.push_back({ticket, std::move(status)});
  mine_->Wake();
}

void LoopbackConnection::TellAbandoned() {
  std::vector<Abandoned> abandoned = std::exchange(abandoned_, {});
  for (Abandoned& message : abandoned) {
    if (closed_) return;
    receiver_->OnAbandoned(message.ticket, std::move(message.status));
  }
}

}  // namespace farcall::loopback
