// Rendezvous at a Wire: performs what OutgoingTransfers and IncomingTransfers say.

#include <utility>

#include "farcall/transports/rdma/wire.h"

namespace farcall::rdma {

// Until there is nothing to do. Calls the receiver back, who may shut this wire; what is to be done
// then is done without calling.
void Wire::Perform() {
  if (!outgoing_->has_actions() && !incoming_->has_actions()) return;
  if (std::exchange(performing_, true)) return;  // the one that runs goes on until there are none
  OutgoingTransfers::Actions outgoing = std::move(outgoing_actions_);
  IncomingTransfers::Actions incoming = std::move(incoming_actions_);
  while (true) {
    outgoing_->TakeActions(outgoing);
    incoming_->TakeActions(incoming);
    if (outgoing.empty() && incoming.empty()) break;
    for (OutgoingTransfers::Action& action : outgoing) PerformOutgoing(action);
    for (IncomingTransfers::Action& action : incoming) PerformIncoming(action);
  }
  outgoing_actions_ = std::move(outgoing);
  incoming_actions_ = std::move(incoming);
  performing_ = false;
}

void Wire::PerformOutgoing(OutgoingTransfers::Action& action) {
  switch (action.what) {
    case outgoing::kFinish: {
      const auto charge = offered_.find(action.transfer);
      if (charge != offered_.end()) {
        outbox_.Release(charge->second);
        offered_.erase(charge);
      }
      outbox_.End(std::move(action.done), std::move(action.result));
      return;
    }
    case outgoing::kSendCancel:
      if (!shut_) controls_.Push({Kind::kCancel, action.transfer, 0});
      return;
    case outgoing::kRevoke:
      return Revoke(action.transfer);
    case outgoing::kRelease:
      action.message = Message();
      return;
  }
}

void Wire::PerformIncoming(IncomingTransfers::Action& action) {
  switch (action.what) {
    case incoming::kStartReads:
      return StartReads(action.transfer, action.segments);
    case incoming::kStopReads:
      // A callback of an action before this one may have ended it all.
      if (pair_ != nullptr && reads_->Stop(action.transfer)) incoming_->Drained(action.transfer);
      return;
    case incoming::kSendFin:
      if (!shut_) {
        controls_.Push({Kind::kFin, action.transfer, static_cast<uint8_t>(action.status.code())});
      }
      return;
    case incoming::kDeliver:
      foreign_sinks_.erase(action.transfer);
      if (shut_) return;
      if (action.message.payload_bytes() > kSmallPayloadBytes) {
        return Deliver(action.ticket, std::move(action.message));
      }
      order_->Arrived(action.ticket, std::move(action.message));
      return DeliverInOrder();
    case incoming::kTell:
      if (shut_) return;
      order_->GiveUp(action.ticket);
      receiver_->OnAbandoned(action.ticket, std::move(action.status));
      return DeliverInOrder();
    case incoming::kRelease:
      foreign_sinks_.erase(action.transfer);
      action.message = Message();
      return;
  }
}

// The peer's right to read ends with the window; without one it is the region's, and the peer has
// promised by its FIN.
void Wire::Revoke(uint32_t transfer) {
  if (shut_ || !windows_.has_value()) {
    if (!windows_.has_value()) outgoing_->Revoked(transfer);
    return;
  }
  revokes_.Push(transfer);
}

// ---- memory to receive into ----

// Begins to read what can be read now: all small payloads, large ones as their turns come.
void Wire::BeginReading() {
  while (!shut_ && incoming_->waiting()) {
    const bool begun = FindMemory();
    Perform();
    if (!begun || shut_ || !cause_.ok()) return;
    PostReads();
  }
}

// True: a large payload has its memory, and the next one may when READs of this one were posted.
bool Wire::FindMemory() {
  while (std::optional<IncomingTransfers::Wanted> wanted = incoming_->WantsMemory()) {
    const bool large = wanted->sizes.body + wanted->sizes.attachment > kSmallPayloadBytes;
    if (large && !reads_->MayBegin()) return false;
    Message& message = *wanted->message;
    absl::Status found = FindSink(wanted->transfer, wanted->sizes.body, message.body);
    if (found.ok()) {
      found = FindSink(wanted->transfer, wanted->sizes.attachment, message.attachment);
    }
    if (found.ok()) {
      incoming_->Memory(wanted->transfer);
      if (large) return true;
    } else if (!incoming_->NoMemory(wanted->transfer, loop_.now())) {
      return false;
    }
  }
  return false;
}

// Memory of the receiver's own, or of the pool when there is none that the device takes.
absl::Status Wire::FindSink(uint32_t transfer, uint64_t bytes, Buffer& part) {
  if (bytes == 0) return absl::OkStatus();
  if (part && (part.slot()->domain == receive_memory_ || FindForeignSink(transfer, part))) {
    return absl::OkStatus();
  }
  absl::StatusOr<Buffer> buffer = receive_pool_->Allocate(static_cast<size_t>(bytes));
  if (!buffer.ok()) return buffer.status();
  part = *std::move(buffer);
  if (bytes > kSmallPayloadBytes) device_->idle_memory().Watch(loop_, receive_pool_);
  return absl::OkStatus();
}

// A UserMemory is registered once, other memory for this READ alone.
bool Wire::FindForeignSink(uint32_t transfer, Buffer& part) {
  if (foreign_sinks_.contains(transfer)) return true;
  if (const MemoryRegion* user = UserRegion(memory_->local_regions(), part)) {
    foreign_sinks_.emplace(transfer, ForeignSink{user, nullptr});
    return true;
  }
  const Capabilities& can = device_->device().capabilities();
  absl::StatusOr<std::unique_ptr<MemoryRegion>> region = memory_->domain()->Register(
      part.bytes(), {.local_write = true, .remote_write = can.read_sink_needs_remote_write});
  if (!region.ok()) return false;
  ++tallies_.registrations;
  const MemoryRegion* const own = region->get();
  foreign_sinks_.emplace(transfer, ForeignSink{own, *std::move(region)});
  return true;
}

// ---- READs ----

void Wire::StartReads(uint32_t transfer, ReadSegments segments) {
  const auto foreign = foreign_sinks_.find(transfer);
  if (foreign != foreign_sinks_.end())
    segments[1].local_region = RegionName(*foreign->second.region);
  reads_->Add(transfer, segments);
}

void Wire::PostReads() {
  ReadQueue::Read read;
  while (slots_.free() > 0 && reads_->Next(read)) {
    SendRequest& request = Add(Opcode::kRead, {place_, WorkKind::kRead, read.transfer}, true);
    request.sges[0] = {read.segment.local, static_cast<uint32_t>(read.segment.bytes),
                       RegionOf(read.segment.local_region).lkey()};
    request.sge_count = 1;
    request.remote_address = read.segment.remote_address;
    request.rkey = read.segment.rkey;
    ++tallies_.reads;
  }
}

void Wire::OnReadDone(uint32_t transfer) {
  if (shut_) return;  // what it was for is lost
  Perform();  // a transfer that was given up since its READ was posted is to be stopped first
  if (shut_) return;
  switch (reads_->Completed(transfer)) {
    case ReadQueue::Progress::kMore:
      return;
    case ReadQueue::Progress::kArrived:
      return incoming_->Arrived(transfer);
    case ReadQueue::Progress::kDrained:
      return incoming_->Drained(transfer);
  }
}

}  // namespace farcall::rdma
