// What leaves a Wire: one list of work requests, gathered and posted at the end of a turn.

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/probe.h"
#include "farcall/transports/rdma/wire.h"

namespace farcall::rdma {
namespace {

// Writes the parts of a SEND one behind the other; what lies between them is 0.
struct LeadWriter {
  std::span<std::byte> bytes;
  size_t written = 0;

  void Append(size_t at, std::span<const std::byte> part) {
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(written),
              bytes.begin() + static_cast<ptrdiff_t>(at), std::byte{0});
    std::copy(part.begin(), part.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
    written = at + part.size();
  }
};

}  // namespace

Ticket Wire::Send(Message&& message, SendDone&& done) {
  assert(loop_.IsDriver());
  if (shut_ || !cause_.ok()) {
    const absl::Status& why = shut_ ? close_status_ : cause_;
    ResumeSoon();
    return outbox_.Reject(std::move(message), std::move(done),
                          Named(absl::UnavailableError(absl::StrCat(
                              "the connection is closed", why.ok() ? "" : ": ", why.message()))));
  }
  if (message.payload_bytes() > kSmallPayloadBytes) {
    device_->idle_memory().Watch(loop_, send_pool_);
  }
  Ticket ticket = 0;
  if (SendAtOnce(message)) {
    // What was copied of it.
    message.body.Reset();
    message.attachment.Reset();
    if (message.head.spilled_bytes() > 0) message.head = Head();
    outbox_.SkipTicket();
  } else {
    ticket = outbox_.Push(std::move(message), std::move(done));
  }
  FlushSoon();
  return ticket;
}

// The first small message of a turn is on its way while the turn does what is left to do; those
// behind it leave some at a time, the last of them at the end of the turn.
bool Wire::SendAtOnce(Message& message) {
  if (!may_send_ || !controls_.empty() || !MaySend(Kind::kMessage) ||
      message.head.size() > kMaxHeadBytes) {
    return false;
  }
  // There may be credits for small ones that wait, too.
  while (Outbox::Item* const item = outbox_.Front()) {
    if (!EagerLayoutOf(item->message).has_value() || !PostMessage(*item)) return false;
    if (!MaySend(Kind::kMessage)) return false;
  }
  const std::optional<Layout> layout = EagerLayoutOf(message);
  if (!layout.has_value() || !PostEager(message, *layout).ok()) return false;
  if (!std::exchange(sent_early_, true)) Ring();
  return true;
}

void Wire::Withdraw(Ticket ticket) {
  assert(loop_.IsDriver());
  if (!live()) return;
  if (!outbox_.Withdraw(ticket) && !outgoing_->Withdraw(ticket, loop_.now())) return;
  FlushSoon();
}

void Wire::Flush() {
  sent_early_ = false;
  if (shut_ || !outgoing_.has_value()) return;
  TellAbandoned();
  Perform();
  BeginReading();
  if (!shut_ && cause_.ok()) {
    PostAll();
    KeepHouse();
  }
  if (!shut_) RunDones();
}

void Wire::PostAll() {
  if (!may_send_) return;
  PostReads();
  PostControls();
  PostMessages();
  // The active side speaks first, whatever it has to say.
  const bool speak = std::exchange(speak_first_, false) && sends_ == settings_->count_from;
  if ((speak || credits_->CreditDue()) && MaySend(Kind::kCredit)) PostCredit(false);
  Ring();
}

void Wire::PostControls() {
  while (!revokes_.empty() && slots_.free() >= 2) {
    const uint32_t transfer = revokes_.Pop();
    const Windows::Pair& bound = windows_->Of(transfer);
    for (size_t i = 0; i < bound.size(); ++i) {
      if (bound[i].window == nullptr) continue;
      const bool last = i == 1 || bound[1].window == nullptr;
      Add(Opcode::kLocalInvalidate,
          {place_, last ? WorkKind::kInvalidate : WorkKind::kBind, transfer}, last)
          .rkey = bound[i].rkey;
    }
  }
  while (!controls_.empty() && MaySend(Kind::kFin)) {
    const Control control = controls_.Pop();
    PostSmall({.kind = control.kind, .transfer = control.transfer, .status = control.status},
              false);
    if (control.kind == Kind::kFin) incoming_->FinPosted();
  }
}

// One that must wait holds up those behind it, for heads keep their order.
void Wire::PostMessages() {
  if (!controls_.empty()) return;
  const uint64_t copied = counters_.payload_bytes_copied;
  while (Outbox::Item* const item = outbox_.Front()) {
    if (!credits_->CanSend(Kind::kMessage)) {
      ++tallies_.credit_stalls;
      return;
    }
    if (!PostMessage(*item)) return;
    if (counters_.payload_bytes_copied - copied >= kCopyBytes) return ResumeSoon();
  }
}

// False: it must wait.
bool Wire::PostMessage(Outbox::Item& item) {
  const std::optional<Layout> layout = EagerLayoutOf(item.message);
  if (!layout.has_value()) return PostOffer(item);
  if (slots_.free() == 0) return Stall();
  if (absl::Status posted = PostEager(item.message, *layout); !posted.ok()) {
    return EndUnsent(posted);
  }
  outbox_.Release(item.charge);
  outbox_.EndSent(std::move(item.done));
  outbox_.DropFront();
  return true;
}

bool Wire::Stall() {
  ++tallies_.slot_stalls;
  return false;
}

// Nothing: it goes by rendezvous.
std::optional<Layout> Wire::EagerLayoutOf(const Message& message) const {
  const size_t payload = message.payload_bytes();
  if (payload > settings_->threshold() && payload != 0) return std::nullopt;
  return EagerLayout(message.head.size(), {message.body.size(), message.attachment.size()},
                     peer_receive_bytes_);
}

// ---- eager ----

bool Wire::Sendable(const Buffer& part) {
  const void* domain = part.slot()->domain;
  if (domain == nullptr) return false;
  return domain == send_memory_ || domain == receive_memory_ || domain == receives_->identity() ||
         UserRegion(memory_->local_regions(), part) != nullptr;
}

// Of a part that is Sendable.
uint32_t Wire::LocalKey(const Buffer& part) {
  if (UserMemory::Of(part) == nullptr) return RegionOf(part.slot()->region).lkey();
  return UserRegion(memory_->local_regions(), part)->lkey();
}

// The region of the user's own memory that `part` is a slice of; nullptr: of another kind, or the
// device does not take it.
const MemoryRegion* Wire::UserRegion(UserRegions& regions, const Buffer& part) {
  UserMemory* const memory = UserMemory::Of(part);
  if (memory == nullptr) return nullptr;
  absl::StatusOr<const MemoryRegion*> region = regions.Of(*memory);
  if (region.ok()) return *region;
  if (!std::exchange(user_memory_refused_, true) && LogEnabled(LogLevel::kWarning)) {
    device_->warnings().Warn(loop_.now(),
                             absl::StrCat(names_.peer, ": user memory of ", memory->memory().size(),
                                          " bytes cannot be registered and is copied instead: ",
                                          region.status().message()));
  }
  return nullptr;
}

// Where `bytes` are put together: in memory that is used again after the doorbell, when the device
// copies them before; in front of the next slot; or in `staged` when there are more.
absl::StatusOr<Wire::Lead> Wire::MakeLead(size_t bytes, bool inlined) {
  Lead lead;
  if (batched_ == kMaxBatch) Ring();
  if (inlined) {
    lead.bytes = std::span(inline_fronts_).subspan(batched_ * kFrontBytes, kFrontBytes);
    return lead;
  }
  if (bytes <= kFrontBytes) {
    lead.bytes = fronts_->memory().subspan(slots_.next() * kFrontBytes, kFrontBytes);
    lead.key = fronts_->lkey();
    return lead;
  }
  absl::StatusOr<Buffer> staged = send_pool_->Allocate(bytes);
  if (!staged.ok()) return staged.status();
  lead.staged = *std::move(staged);
  lead.bytes = lead.staged.bytes();
  lead.key = RegionOf(lead.staged.slot()->region).lkey();
  return lead;
}

// In up to two pieces: what is put together here, and the last part where it lies. An inline SEND
// takes it from anywhere, for the device copies it at once. Not OK: nothing has changed.
absl::Status Wire::PostEager(Message& message, const Layout& layout) {
  const bool inlined = layout.end <= max_inline_;
  if (inlined && message.attachment.empty()) {
    PostInline(message, layout);
    return absl::OkStatus();
  }
  Buffer& last = !message.attachment.empty() ? message.attachment : message.body;
  const bool gather = !last.empty() && (inlined || Sendable(last));
  const size_t lead_bytes = gather ? layout.end - last.size() : layout.end;
  absl::StatusOr<Lead> lead = MakeLead(lead_bytes, inlined);
  if (!lead.ok()) return lead.status();

  EncodeEnvelope({.kind = Kind::kMessage,
                  .reposts = credits_->Send(),
                  .head = static_cast<uint16_t>(message.head.size()),
                  .sizes = {message.body.size(), message.attachment.size()}},
                 lead->bytes);
  LeadWriter writer{lead->bytes, layout.head};
  writer.Append(layout.head, message.head.bytes());
  const auto copy = [&](size_t at, const Buffer& part) {
    if (part.empty() || (gather && &part == &last)) return;
    writer.Append(at, part.bytes());
    counters_.payload_bytes_copied += part.size();
    ++tallies_.copies;
  };
  copy(layout.body, message.body);
  copy(layout.attachment, message.attachment);
  writer.Append(lead_bytes, {});

  // The user wants memory of his own back, and the peer may have nothing to say for long.
  const bool users = gather && !inlined && UserMemory::Of(last) != nullptr;
  AddSend(lead->bytes.first(lead_bytes), lead->key, gather ? &last : nullptr, inlined, users);
  CountSent(message);
  ++tallies_.eager_messages;
  if (inlined) {
    if (gather) sent_.push_back(std::move(last));
  } else if (gather || lead->staged) {
    slots_.Lease(sends_, gather ? std::move(last) : Buffer(), std::move(lead->staged));
  }
  return absl::OkStatus();
}

// A message without attachment that the device copies: what nearly every small one is.
void Wire::PostInline(Message& message, const Layout& layout) {
  if (batched_ == kMaxBatch) Ring();
  std::byte* const lead = inline_fronts_.data() + batched_ * kFrontBytes;
  const size_t head_bytes = message.head.size();
  const size_t body_bytes = message.body.size();
  const size_t lead_bytes = body_bytes != 0 ? layout.body : layout.end;
  EncodeEnvelope({.kind = Kind::kMessage,
                  .reposts = credits_->Send(),
                  .head = static_cast<uint16_t>(head_bytes),
                  .sizes = {body_bytes, 0}},
                 {lead, kFrontBytes});
  std::memcpy(lead + layout.head, message.head.data(), head_bytes);
  std::memset(lead + layout.head + head_bytes, 0, lead_bytes - layout.head - head_bytes);
  CountSent(message);
  ++tallies_.eager_messages;
  ++tallies_.sends;
  ++tallies_.inline_sends;
  ++sends_;
  SendRequest& request = Add(Opcode::kSend, {place_, WorkKind::kSend, sends_}, false);
  request.inlined = true;
  request.sge_count = 1;
  request.sges[0] = {lead, static_cast<uint32_t>(lead_bytes), 0};
  if (body_bytes == 0) return;
  request.sge_count = 2;
  request.sges[1] = {message.body.data(), static_cast<uint32_t>(body_bytes), 0};
  sent_.push_back(std::move(message.body));
}

bool Wire::EndUnsent(const absl::Status& status) {
  Outbox::Item& item = *outbox_.Front();
  outbox_.Release(item.charge);
  outbox_.End(std::move(item.done), {status, false, std::move(item.message)});
  outbox_.DropFront();
  return true;
}

void Wire::CountSent(const Message& message) {
  ++counters_.messages_sent;
  counters_.bytes_sent += message.head.size() + message.payload_bytes();
}

// ---- rendezvous ----

bool Wire::PostOffer(Outbox::Item& item) {
  const size_t parts =
      (item.message.body.empty() ? 0 : 1) + (item.message.attachment.empty() ? 0 : 1);
  if (slots_.free() < 1 + parts || !outgoing_->CanBegin()) return Stall();
  for (Buffer* const part : {&item.message.body, &item.message.attachment}) {
    const absl::StatusOr<bool> readable = MakeReadable(*part, item.copy);
    if (!readable.ok()) return EndUnsent(readable.status());
    if (*readable) continue;
    ResumeSoon();  // goes on with it
    return false;
  }
  if (windows_.has_value() && !windows_->Reserve(parts)) {
    if (!windows_->none_bound()) return Stall();  // one comes back
    return EndUnsent(absl::ResourceExhaustedError("the device has no memory window left"));
  }
  const MessageSizes sizes{item.message.body.size(), item.message.attachment.size()};
  const Layout layout = LayoutOf(Kind::kRts, item.message.head.size(), sizes);
  // The RTS takes the slot behind the BINDs, and its front: nobody else's.
  CountSent(item.message);
  const uint32_t transfer =
      outgoing_->Begin(item.ticket, std::move(item.message), std::move(item.done));
  offered_.emplace(transfer, item.charge);
  outbox_.DropFront();
  ++tallies_.rendezvous_messages;
  const Message& message = outgoing_->message(transfer);
  Windows::Pair bound;
  const Region body = Bind(message.body, transfer, bound[0]);
  const Region attachment = Bind(message.attachment, transfer, bound[1]);
  if (windows_.has_value()) windows_->Keep(transfer, std::move(bound));
  PostRts({.kind = Kind::kRts,
           .transfer = transfer,
           .head = static_cast<uint16_t>(message.head.size()),
           .sizes = sizes,
           .body = body,
           .attachment = attachment},
          layout, message.head.bytes());
  outgoing_->Posted(transfer);
  return true;
}

void Wire::PostRts(Envelope envelope, const Layout& layout, std::span<const std::byte> head) {
  const bool inlined = layout.end <= max_inline_;
  absl::StatusOr<Lead> lead = MakeLead(layout.end, inlined);
  if (!lead.ok()) return Fail(lead.status());  // for a head: the pool keeps room for those
  envelope.reposts = credits_->Send();
  EncodeEnvelope(envelope, lead->bytes);
  LeadWriter writer{lead->bytes, layout.head};
  writer.Append(layout.head, head);
  AddSend(lead->bytes.first(layout.end), lead->key, nullptr, inlined);
  if (lead->staged) slots_.Lease(sends_, std::move(lead->staged), {});
}

// What the peer cannot read where it lies is copied to where it can, a piece of it now. False:
// there is more of it to do.
absl::StatusOr<bool> Wire::MakeReadable(Buffer& part, Outbox::Copy& copy) {
  if (part.empty() || part.slot()->domain == send_memory_) return true;
  if (device_->device().capabilities().remote_read_anywhere &&
      UserRegion(memory_->readable_regions(), part) != nullptr) {
    return true;
  }
  if (!copy.to) {
    absl::StatusOr<Buffer> memory = send_pool_->Allocate(part.size());
    if (!memory.ok()) return memory.status();
    copy = {*std::move(memory), 0};
    ++tallies_.copies;
  }
  const size_t bytes = std::min(part.size() - copy.done, kCopyBytes);
  std::memcpy(copy.to.data() + copy.done, part.data() + copy.done, bytes);
  copy.done += bytes;
  counters_.payload_bytes_copied += bytes;
  if (copy.done < part.size()) return false;
  part = std::move(copy.to);
  return true;
}

Region Wire::Bind(const Buffer& part, uint32_t transfer, Windows::Bound& bound) {
  if (part.empty()) return {};
  const MemoryRegion& region = part.slot()->domain == send_memory_
                                   ? RegionOf(part.slot()->region)
                                   : *UserRegion(memory_->readable_regions(), part);
  const uint64_t address = reinterpret_cast<uintptr_t>(part.data());
  if (!windows_.has_value()) return {address, region.rkey()};
  bound.window = windows_->Take();
  bound.rkey = bound.window->next_rkey();
  SendRequest& request = Add(Opcode::kBind, {place_, WorkKind::kBind, transfer}, false);
  request.window = bound.window.get();
  request.region = &region;
  request.bind_address = address;
  request.bind_length = part.size();
  return {address, bound.rkey};
}

// ---- the list ----

void Wire::PostCredit(bool wants_completion) {
  ++tallies_.credit_messages;
  PostSmall({.kind = Kind::kCredit}, wants_completion);
}

void Wire::PostSmall(Envelope envelope, bool wants_completion) {
  const bool inlined = kEnvelopeBytes <= max_inline_;
  const Lead lead = *MakeLead(kEnvelopeBytes, inlined);
  envelope.reposts = credits_->Send();
  EncodeEnvelope(envelope, lead.bytes);
  AddSend(lead.bytes.first(kEnvelopeBytes), lead.key, nullptr, inlined, wants_completion);
}

SendRequest& Wire::Add(Opcode opcode, WorkId id, bool wants_completion) {
  if (batched_ == kMaxBatch) Ring();
  SendRequest& request = batch_[batched_++];
  request = SendRequest{};
  request.wr_id = id.Pack();
  request.opcode = opcode;
  request.signaled = slots_.Take(wants_completion);
  if (request.signaled) ++tallies_.signaled;
  return request;
}

void Wire::AddSend(std::span<const std::byte> lead, uint32_t lead_key, const Buffer* tail,
                   bool inlined, bool wants_completion) {
  ++sends_;
  SendRequest& request = Add(Opcode::kSend, {place_, WorkKind::kSend, sends_}, wants_completion);
  request.inlined = inlined;
  request.sges[0] = {lead.data(), static_cast<uint32_t>(lead.size()), lead_key};
  request.sge_count = 1;
  if (tail != nullptr) {
    const uint32_t key = inlined ? 0 : LocalKey(*tail);
    request.sges[1] = {tail->data(), static_cast<uint32_t>(tail->size()), key};
    request.sge_count = 2;
  }
  ++tallies_.sends;
  if (inlined) ++tallies_.inline_sends;
}

void Wire::Ring() {
  if (batched_ == 0) return;
  size_t posted = 0;
  absl::Status status = pair_->PostSend(std::span(batch_).first(batched_), posted);
  FARCALL_PROBE(kPosted);
  batched_ = 0;
  sent_.clear();
  ++tallies_.doorbells;
  ++counters_.send_calls;
  if (!status.ok()) Fail(status);
}

}  // namespace farcall::rdma
