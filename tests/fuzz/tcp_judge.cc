#include "farcall/tests/fuzz/tcp_judge.h"

#include <bit>

#include "farcall/rpc/bytes.h"
#include "farcall/rpc/limits.h"

namespace farcall::fuzz {

Admission Judge::Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) {
  FUZZ_CHECK(ticket == states_.size() + 1);
  FUZZ_CHECK(ticket <= told_.messages.size());
  const Told::Payload& message = told_.messages[ticket - 1];
  FUZZ_CHECK(AsView(head) == message.head);
  FUZZ_CHECK(sizes.body == message.body && sizes.attachment == message.attachment);
  states_.push_back(State::kAdmitting);
  Meddle();
  Admission admission;
  switch (dice_.Next() % 8) {
    case 1:
      admission.refused = absl::ResourceExhaustedError("the dice say so");
      break;
    case 2:  // a place of our own: large enough, or by far not
    case 3: {
      const uint64_t room = dice_.Next() % 2 == 0 ? sizes.attachment : sizes.attachment / 1000;
      if (absl::StatusOr<Buffer> place = pool_.Allocate(room); place.ok()) {
        admission.attachment = *std::move(place);
      }
      break;
    }
    default:
      break;
  }
  states_.back() = admission.refused.ok() ? State::kLive : State::kRefused;
  return admission;
}

void Judge::OnMessage(Ticket ticket, Message&& message) {
  FUZZ_CHECK(StateOf(ticket) == State::kLive);
  const Told::Payload& told = told_.messages[ticket - 1];
  FUZZ_CHECK(told.whole);
  FUZZ_CHECK(AsView(message.head.bytes()) == told.head);
  FUZZ_CHECK(message.body.size() == told.body && message.attachment.size() == told.attachment);
  FUZZ_CHECK(message.body.view() == std::string_view(told.bytes).substr(0, told.body));
  FUZZ_CHECK(message.attachment.view() == std::string_view(told.bytes).substr(told.body));
  for (const Buffer* buffer : {&message.body, &message.attachment}) {
    FUZZ_CHECK(reinterpret_cast<uintptr_t>(buffer->data()) % kBufferAlignment == 0);
  }
  while (told_.order.at(delivered_) != ticket) {  // overtaken by none that is still to come
    FUZZ_CHECK(StateOf(told_.order[delivered_++]) != State::kLive);
  }
  states_[ticket - 1] = State::kDelivered;
  if (dice_.Next() % 2 == 1) held_.emplace_back(ticket, std::move(message));
  Meddle();
}

void Judge::OnLost(Ticket ticket, const absl::Status& status) {
  FUZZ_CHECK(StateOf(ticket) == State::kLive);
  states_[ticket - 1] = State::kLost;
  FUZZ_CHECK(absl::IsResourceExhausted(status) || absl::IsCancelled(status));
  if (absl::IsCancelled(status)) FUZZ_CHECK(told_.messages[ticket - 1].aborted);
  Meddle();
}

void Judge::Meddle() {
  switch (dice_.Next() % 16) {
    case 1:
    case 2:
    case 3: {
      const Ticket ticket = dice_.Next() % states_.size() + 1;
      abandon_(ticket);
      break;
    }
    case 4:
      if (dice_.Next() % 4 == 1) stop_();
      break;
    case 5:
      held_.clear();
      break;
    default:
      break;
  }
}

// What the pool cuts for a message.
size_t Judge::Slots(const Told::Payload& message) const {
  constexpr uint64_t kSmallest = 256;
  size_t bytes = 0;
  if (message.head.size() > Head::kInlineBytes) {
    bytes += std::bit_ceil(std::max<uint64_t>(message.head.size(), kSmallest));
  }
  for (const uint64_t size : {message.body, message.attachment}) {
    if (size > 0) bytes += std::bit_ceil(std::max(size, kSmallest));
  }
  return bytes;
}

void Judge::CheckMemory() {
  size_t least = 0;
  size_t promised = 0;  // at most beyond it, of large payloads: they take memory as they arrive
  for (size_t i = 0; i < states_.size(); ++i) {
    FUZZ_CHECK(states_[i] != State::kAdmitting);
    if (states_[i] != State::kLive) continue;
    const Told::Payload& message = told_.messages[i];
    (message.body + message.attachment > kSmallPayloadBytes ? promised : least) += Slots(message);
  }
  for (const auto& [ticket, held] : held_) {
    const Told::Payload& message = told_.messages[ticket - 1];
    const uint64_t bytes = message.body + message.attachment;
    // Of a large one what was filled counts, or all of a slot that was warm.
    least += bytes > kSmallPayloadBytes ? bytes : Slots(message);
    if (bytes > kSmallPayloadBytes) promised += Slots(message);
  }
  const size_t leased = pool_.stats().leased_bytes;
  // A place of our own for an attachment of no bytes is kept, too.
  const size_t extra = leased - least;
  FUZZ_CHECK(leased >= least && extra <= promised + 256 * (states_.size() + held_.size()));
  if (least + promised == 0 && held_.empty()) FUZZ_CHECK(leased == 0);
}

void Judge::CheckComplete() const {
  FUZZ_CHECK(states_.size() == told_.messages.size());
  for (size_t i = 0; i < states_.size(); ++i) {
    const bool ended = told_.messages[i].whole || told_.messages[i].aborted;
    if (ended) FUZZ_CHECK(states_[i] != State::kLive);
  }
}

}  // namespace farcall::fuzz
