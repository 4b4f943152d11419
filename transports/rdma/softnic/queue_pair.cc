#include "farcall/transports/rdma/softnic/queue_pair.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farcall::softnic {

using rdma::CompletionStatus;
using rdma::QueuePairState;

absl::StatusOr<std::unique_ptr<SoftQueuePair>> SoftQueuePair::Create(
    std::shared_ptr<DeviceCore> device, std::shared_ptr<DomainCore> domain,
    const rdma::QueuePairOptions& options, QueuePairOwner& owner) {
  if (options.send_queue == nullptr || options.receive_queue == nullptr ||
      options.send_depth == 0 || options.send_depth > kMaxQueueDepth ||
      options.receive_depth == 0 || options.receive_depth > kMaxQueueDepth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "softnic: a queue pair needs two completion queues and depths of 1 to ", kMaxQueueDepth));
  }
  const Geometry geometry{std::bit_ceil(options.send_depth), device->options.arena_bytes};
  absl::StatusOr<OwnMemory> memory = OwnMemory::Create("farcall-softnic-ring", geometry.bytes());
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<SoftQueuePair>(new SoftQueuePair(
      std::move(device), std::move(domain), options, geometry, *std::move(memory), owner));
}

SoftQueuePair::SoftQueuePair(std::shared_ptr<DeviceCore> device, std::shared_ptr<DomainCore> domain,
                             const rdma::QueuePairOptions& options, Geometry geometry,
                             OwnMemory memory, QueuePairOwner& owner)
    : device_(std::move(device)),
      domain_(std::move(domain)),
      send_queue_(static_cast<Completions*>(options.send_queue)->core()),
      receive_queue_(static_cast<Completions*>(options.receive_queue)->core()),
      number_(device_->next_queue_pair.fetch_add(1, std::memory_order_relaxed)),
      max_inline_(std::min(options.max_inline, device_->capabilities.max_inline)),
      send_depth_(options.send_depth),
      receive_depth_(options.receive_depth),
      memory_(std::move(memory)),
      owner_(&owner),
      outbound_(OwnSegment(memory_.base(), geometry)),
      works_(geometry.slots),
      rests_(geometry.slots),
      inlined_(std::make_unique_for_overwrite<std::byte[]>(size_t{geometry.slots} * max_inline_)),
      receives_(std::bit_ceil(receive_depth_)) {
  send_queue_->roster().Add(send_member_);
  if (receive_queue_ != send_queue_) receive_queue_->roster().Add(receive_member_);
}

SoftQueuePair::~SoftQueuePair() {
  if (owner_ != nullptr) owner_->OnQueuePairGone();
  if (link_ != nullptr) {
    domain_->Detach(*link_);
    Unwatch();
  }
  send_queue_->Forget(*this);
  send_queue_->roster().Remove(send_member_);
  if (receive_queue_ == send_queue_) return;
  receive_queue_->Forget(*this);
  receive_queue_->roster().Remove(receive_member_);
}

void SoftQueuePair::Establish(std::shared_ptr<Link> link, PeerSide peer, uint32_t rnr_retry) {
  link_ = std::move(link);
  peer_ = std::move(peer);
  rnr_retry_ = rnr_retry;
  inbound_ = Inbound(PeerSegment(peer_.segment->base(), peer_.geometry));
  peer_keys_ = PeerKeys(peer_.key_table->base(), peer_.keys);
  domain_->Attach(*link_, outbound_.segment().header());
  // A doorbell wakes whoever sleeps, on either queue.
  send_queue_->Watch(link_->socket(), *this);
  if (receive_queue_ != send_queue_) receive_queue_->Watch(link_->socket(), *this);
  memory_.CloseDescriptor();
  MakeBusy();
  if (state_ == QueuePairState::kInit) state_ = QueuePairState::kReadyToSend;
}

void SoftQueuePair::Unwatch() {
  send_queue_->Unwatch(link_->socket());
  if (receive_queue_ != send_queue_) receive_queue_->Unwatch(link_->socket());
}

void SoftQueuePair::MakeBusy() {
  send_queue_->roster().MakeBusy(send_member_);
  if (receive_queue_ != send_queue_) receive_queue_->roster().MakeBusy(receive_member_);
}

const std::atomic<uint32_t>* SoftQueuePair::next_message(uint32_t& shows) const {
  if (state_ != QueuePairState::kReadyToSend) return nullptr;
  return &inbound_.Next(shows);
}

absl::Status SoftQueuePair::Usable() const {
  if (guard_.inherited()) {
    return absl::FailedPreconditionError(
        "softnic: this connection belongs to the parent process; connect anew after fork");
  }
  return absl::OkStatus();
}

bool SoftQueuePair::Progress() {
  if (state_ != QueuePairState::kReadyToSend) return false;
  ++polls_;
  bool received = false;
  if (inbound_.Ready()) {
    inbound_.Fetch();
    received = Receive(kMaxMessagesPerPoll);
    if (state_ != QueuePairState::kReadyToSend) return false;
  }
  if (sends_outstanding()) {
    LookAtTaken();
    if (SendsMayMove()) {
      settled_taken_ = outbound_.taken();
      StartQueued();
      ReadSome();
      Retire();
    }
    if (state_ != QueuePairState::kReadyToSend) return false;
    if (outbound_.Publish()) RingIfArmed(false);
  }
  // Later than at once: a reply that leaves before the next Poll says it by the way.
  if (!received && told_taken_ != inbound_.taken()) PublishTaken();
  if (polls_ % 64 == 0) Housekeep();
  return received || sends_outstanding() || waiting_for_receive_;
}

void SoftQueuePair::Housekeep() {
  if (state_ != QueuePairState::kReadyToSend) return;
  if (device_->removed.load(std::memory_order_relaxed)) {
    Fail(CompletionStatus::kRemoteOperationError);
    if (owner_ != nullptr) owner_->OnRemoved();
    return;
  }
  if (link_->behind()) domain_->CatchUp(*link_);
  ReadNotices();
}

bool SoftQueuePair::announced() const {
  return state_ == QueuePairState::kReadyToSend &&
         inbound_.segment().header().notices.load(std::memory_order_acquire) != notices_seen_;
}

void SoftQueuePair::ReadNotices() {
  for (uint32_t reads = kSocketReads; reads != 0 && announced(); --reads) {
    const uint32_t before = notices_seen_;
    ReadPackets();
    if (notices_seen_ != before) continue;
    // The rest waits for room that there is now. Its owner may be asleep.
    if (std::exchange(asked_at_, before) != before) link_->RingDoorbell();
    return;
  }
}

// ---- the end ----

void SoftQueuePair::Fail(CompletionStatus told) {
  if (state_ == QueuePairState::kError) return;
  state_ = QueuePairState::kError;
  if (taken_flags_ == 0) taken_flags_ = Taken(0, told);
  if (link_ != nullptr && !guard_.inherited()) PublishTaken();
  FlushSends(CompletionStatus::kFlushed);
  while (receive_taken_ != receive_posted_) CompleteReceive(CompletionStatus::kFlushed, 0);
}

void SoftQueuePair::FlushSends(CompletionStatus first) {
  while (sends_outstanding()) {
    Complete(work(send_retired_), first);
    first = CompletionStatus::kFlushed;
  }
  send_started_ = send_reading_ = send_posted_;
}

void SoftQueuePair::Violated(const char* rule) {
  if (taken_flags_ == 0) taken_flags_ = Taken(0, CompletionStatus::kRemoteOperationError);
  EndWith(absl::UnavailableError(absl::StrCat("the peer's device broke a rule of the ring: ", rule,
                                              "; its programs differ, or it is hostile")),
          true);
}

void SoftQueuePair::EndWith(absl::Status status, bool died) {
  if (std::exchange(ended_, true)) return;
  if (state_ == QueuePairState::kReadyToSend) {
    // What arrived before the end is delivered; as much as fits into the ring, no more.
    Receive(peer_.geometry.slots);
  }
  if (state_ == QueuePairState::kReadyToSend) {
    LookAtTaken();
    Retire();
  }
  if (state_ == QueuePairState::kReadyToSend && died && sends_outstanding()) {
    Complete(work(send_retired_), CompletionStatus::kRetryExceeded);
  }
  Fail();
  if (owner_ != nullptr) owner_->OnPeerGone(std::move(status));
}

// ---- the control socket ----

void SoftQueuePair::ReadPackets(bool to_doorbell) {
  if (link_ == nullptr || guard_.inherited()) return;
  touched_ = true;
  MakeBusy();
  if (link_->behind()) domain_->CatchUp(*link_);
  Packet packet;
  for (uint32_t i = 0; i < kPacketsPerRead; ++i) {
    switch (ReceivePacket(link_->socket(), packet)) {
      case Received::kNothing:
        return;
      case Received::kEnd:
        Unwatch();
        return EndWith(absl::UnavailableError("the peer died, or closed without a word"), true);
      case Received::kNoDescriptors:
        Unwatch();
        return EndWith(absl::UnavailableError(
                           "no descriptor is free in this process for memory that the peer offers: "
                           "raise its limit of open files (ulimit -n)"),
                       true);
      case Received::kPacket:
        if (to_doorbell && packet.kind() == PacketKind::kDoorbell) return;
        HandlePacket(packet);
    }
  }
}

void SoftQueuePair::HandlePacket(Packet& packet) {
  switch (packet.kind()) {
    case PacketKind::kDoorbell:
      // A Poll found it beside what it was looking for, perhaps after Arm.
      send_queue_->PassOn();
      if (receive_queue_ != send_queue_) receive_queue_->PassOn();
      return;
    case PacketKind::kReady:
      if (owner_ != nullptr) owner_->OnReady();
      return;
    case PacketKind::kSlabs: {
      const absl::Status added = AddSlabs(packet);
      if (!added.ok()) EndWith(added, true);
      return;
    }
    case PacketKind::kSlabGone: {
      const absl::Status removed = RemoveSlabs(packet);
      if (!removed.ok()) EndWith(removed, true);
      return;
    }
    case PacketKind::kBye:
      return EndWith(absl::UnavailableError("the peer disconnected"), false);
    default:
      return Violated("a packet of an unknown kind");
  }
}

// False: it does not hold what it says.
bool SoftQueuePair::ReadSlabs(const Packet& packet, bool with_files, SlabsPacket& slabs) {
  std::memcpy(&slabs, packet.bytes, packet.size);
  if (packet.size < SlabsPacket::Bytes(1) || slabs.count == 0 || slabs.count > kSlabsPerPacket ||
      !packet.Is(SlabsPacket::Bytes(slabs.count), with_files ? slabs.count : 0)) {
    return false;
  }
  notices_seen_ += slabs.count;
  return true;
}

absl::Status SoftQueuePair::RemoveSlabs(const Packet& packet) {
  SlabsPacket slabs;
  if (!ReadSlabs(packet, false, slabs)) {
    return absl::UnavailableError("the peer took memory back in a packet of another length");
  }
  for (uint32_t i = 0; i < slabs.count; ++i) {
    const auto found = slabs_.find(slabs.slabs[i].key);
    if (found == slabs_.end()) {
      return absl::UnavailableError("the peer took memory back that never came");
    }
    mapped_bytes_ -= found->second.size();
    slabs_.erase(found);
  }
  return absl::OkStatus();
}

absl::Status SoftQueuePair::AddSlabs(const Packet& packet) {
  SlabsPacket slabs;
  if (!ReadSlabs(packet, true, slabs)) {
    return absl::UnavailableError("the peer announced memory in a packet of another length");
  }
  for (uint32_t i = 0; i < slabs.count; ++i) {
    const SlabEntry& slab = slabs.slabs[i];
    const uint64_t room = device_->options.max_mapped_bytes - mapped_bytes_;
    if (slab.bytes > room || slabs_.size() >= kMaxPeerSlabs) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the peer offers more memory than is mapped for one connection: ", slab.bytes,
          " bytes beside ", mapped_bytes_, " (SoftnicOptions::max_mapped_bytes)"));
    }
    absl::StatusOr<PeerMemory> mapped = PeerMemory::Map(packet.descriptors[i], slab.bytes);
    if (!mapped.ok()) return mapped.status();
    if (!slabs_.emplace(slab.key, *std::move(mapped)).second) {
      return absl::UnavailableError("the peer announced the same memory twice");
    }
    mapped_bytes_ += slab.bytes;
  }
  return absl::OkStatus();
}

// ---- sleeping and waking ----

void SoftQueuePair::RingIfArmed(bool only_taken) {
  // After a store in the same total order: either the peer sees that store before it sleeps, or we
  // see that it wants to.
  const uint32_t armed = inbound_.segment().header().armed.load(std::memory_order_seq_cst);
  if (armed >> 1 == 0 || armed >> 1 == rung_) return;
  if (only_taken && (armed & 1) == 0) return;
  rung_ = armed >> 1;
  link_->RingDoorbell();
}

bool SoftQueuePair::Arm() {
  if (state_ != QueuePairState::kReadyToSend) return true;
  if (told_taken_ != inbound_.taken()) PublishTaken();
  bool waits_for_taken = send_started_ != send_posted_;
  for (uint32_t i = send_retired_; i != send_started_ && !waits_for_taken; ++i) {
    waits_for_taken = work(i).signaled;
  }
  const uint32_t wish = waits_for_taken ? 1 : 0;
  if (touched_ || (armed_ & 1) != wish) {
    touched_ = false;
    const uint32_t number = (armed_ >> 1) + 1;
    armed_ = (number == uint32_t{1} << 31 ? 1 : number) << 1 | wish;
    outbound_.segment().header().armed.store(armed_, std::memory_order_seq_cst);
  }
  return !HasWork();
}

bool SoftQueuePair::HasWork() const {
  if (inbound_.Ready(std::memory_order_seq_cst) && taken_flags_ == 0 &&
      (!waiting_for_receive_ || rnr_retry_ < 7)) {
    return true;
  }
  if (!sends_outstanding()) return false;
  const uint64_t taken = inbound_.segment().header().taken.load(std::memory_order_seq_cst);
  if (static_cast<int32_t>(static_cast<uint32_t>(taken) - outbound_.taken()) > 0) return true;
  if (taken >> 32 != 0) return true;
  // What Poll goes on with: READs, and what a fault holds back.
  for (uint32_t i = send_retired_; i != send_posted_; ++i) {
    const size_t place = i & (works_.size() - 1);
    const Work& work = works_[place];
    if (work.opcode == rdma::Opcode::kRead && work.step != Step::kDone) return true;
    if (work.completes_at > polls_) return true;
    if (work.step == Step::kQueued && rests_[place].starts_at > polls_) return true;
  }
  return false;
}

}  // namespace farcall::softnic
