#include "farcall/transports/rdma/softnic/protection_domain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farcall::softnic {
namespace {

absl::Status Inherited() {
  return absl::FailedPreconditionError(
      "softnic: this protection domain belongs to the parent process; make another after fork");
}

}  // namespace

void DomainCore::Tell(Peer& peer, Notice notice) {
  peer.unsent.push_back(notice);
  // Counted before it is sent: a peer that sees the count looks until it has them all.
  peer.header->notices.fetch_add(1, std::memory_order_release);
}

// As many notices as one packet carries. False: the socket is full, or the peer gone.
bool DomainCore::SendOne(Peer& peer) const {
  SlabsPacket packet;
  int descriptors[kSlabsPerPacket] = {};
  packet.kind = peer.unsent.front().kind;
  for (const Notice& notice : peer.unsent) {
    if (notice.kind != packet.kind || packet.count == kSlabsPerPacket) break;
    SlabEntry& entry = packet.slabs[packet.count];
    entry.key = notice.key;
    if (notice.kind == PacketKind::kSlabs) {
      const OwnMemory& slab = *slabs_.at(notice.key);
      entry.bytes = slab.size();
      descriptors[packet.count] = slab.fd();
    }
    ++packet.count;
  }
  const size_t files = packet.kind == PacketKind::kSlabs ? packet.count : 0;
  if (!peer.link->Send(BytesOf(packet).first(SlabsPacket::Bytes(packet.count)),
                       std::span(descriptors, files))) {
    return false;
  }
  peer.unsent.erase(peer.unsent.begin(), peer.unsent.begin() + packet.count);
  return true;
}

void DomainCore::Send(Peer& peer) const {
  while (!peer.unsent.empty() && SendOne(peer)) {
  }
  peer.link->set_behind(!peer.unsent.empty());
}

void DomainCore::AddSlab(uint32_t key, const OwnMemory& slab) {
  const MutexLock lock(mutex_);
  slabs_.emplace(key, &slab);
  for (Peer& peer : peers_) {
    Tell(peer, {PacketKind::kSlabs, key});
    Send(peer);
  }
}

void DomainCore::RemoveSlab(uint32_t key) {
  const MutexLock lock(mutex_);
  slabs_.erase(key);
  for (Peer& peer : peers_) {
    // What it has not heard of it need not forget.
    const size_t unheard = std::erase_if(peer.unsent, [&](const Notice& notice) {
      return notice.kind == PacketKind::kSlabs && notice.key == key;
    });
    if (unheard != 0) {
      peer.header->notices.fetch_sub(1, std::memory_order_release);
    } else {
      Tell(peer, {PacketKind::kSlabGone, key});
    }
    Send(peer);
  }
}

void DomainCore::Attach(Link& link, SegmentHeader& header) {
  const MutexLock lock(mutex_);
  Peer& peer = peers_.emplace_back(Peer{&link, &header, {}});
  for (const auto& [key, slab] : slabs_) Tell(peer, {PacketKind::kSlabs, key});
  Send(peer);
}

void DomainCore::CatchUp(Link& link) {
  const MutexLock lock(mutex_);
  for (Peer& peer : peers_) {
    if (peer.link == &link) Send(peer);
  }
}

void DomainCore::Detach(Link& link) {
  const MutexLock lock(mutex_);
  std::erase_if(peers_, [&](const Peer& peer) { return peer.link == &link; });
}

Region::Region(std::shared_ptr<DomainCore> domain, uint32_t key, std::span<std::byte> memory,
               rdma::Access access, std::optional<Mapping> own, std::optional<OwnMemory> slab)
    : MemoryRegion(memory, key, access.remote_read ? key : 0),
      domain_(std::move(domain)),
      access_(access),
      private_(std::move(own)),
      slab_(std::move(slab)) {
  domain_->keys().SetLocal(key, memory, access);
  if (!slab_.has_value()) return;
  domain_->AddSlab(key, *slab_);
  if (access.remote_read) {
    domain_->keys().SetRemote(key, key, reinterpret_cast<uintptr_t>(memory.data()), 0,
                              memory.size());
  }
}

Region::~Region() {
  if (domain_->inherited()) return;
  domain_->keys().ClearLocal(lkey());
  if (slab_.has_value()) {
    if (access_.bind) {
      domain_->keys().ClearRemoteOfSlab(lkey());
    } else {
      domain_->keys().ClearRemote(lkey());
    }
    domain_->RemoveSlab(lkey());
  }
  domain_->keys().GiveBack(lkey());
}

Window::~Window() {
  if (domain_->inherited()) return;
  domain_->keys().ClearRemote(bound_);
  domain_->keys().GiveBack(next_);
}

uint32_t Window::TakeKey() { return std::exchange(next_, KeyTable::Next(next_)); }

bool Window::Bind(uint32_t key, const Region& region, uint64_t address, uint64_t bytes) {
  const auto start = reinterpret_cast<uintptr_t>(region.memory().data());
  const uint64_t size = region.memory().size();
  if (region.domain() != domain_.get() || !region.bindable() || bytes == 0 || bytes > size ||
      address < start || address - start > size - bytes) {
    return false;
  }
  domain_->keys().SetRemote(key, region.lkey(), address, address - start, bytes);
  bound_ = key;
  return true;
}

absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> Domain::Allocate(size_t bytes,
                                                                     rdma::Access access) {
  if (core_->inherited()) return Inherited();
  if (bytes == 0) return absl::InvalidArgumentError("softnic: a memory region of 0 bytes");
  std::optional<Mapping> own;
  std::optional<OwnMemory> slab;
  std::byte* base = nullptr;
  if (access.remote_read || access.bind) {
    absl::StatusOr<OwnMemory> made = OwnMemory::Create("farcall-softnic-slab", bytes);
    if (!made.ok()) return made.status();
    base = made->base();
    slab.emplace(*std::move(made));
  } else {
    absl::StatusOr<Mapping> made = MapPrivate(bytes);
    if (!made.ok()) return made.status();
    base = made->base();
    own.emplace(*std::move(made));
  }
  absl::StatusOr<uint32_t> key = core_->keys().Take();
  if (!key.ok()) return key.status();
  return std::make_unique<Region>(core_, *key, std::span(base, bytes), access, std::move(own),
                                  std::move(slab));
}

absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> Domain::Register(std::span<std::byte> memory,
                                                                     rdma::Access access) {
  if (core_->inherited()) return Inherited();
  if (memory.empty()) return absl::InvalidArgumentError("softnic: a memory region of 0 bytes");
  if (access.remote_read || access.bind) {
    return absl::UnimplementedError(
        "softnic: peers can read memory of ProtectionDomain::Allocate only");
  }
  absl::StatusOr<uint32_t> key = core_->keys().Take();
  if (!key.ok()) return key.status();
  return std::make_unique<Region>(core_, *key, memory, access, std::nullopt, std::nullopt);
}

absl::StatusOr<std::unique_ptr<rdma::MemoryWindow>> Domain::AllocateWindow() {
  if (core_->inherited()) return Inherited();
  if (!core_->windows()) return absl::UnimplementedError("softnic: windows are switched off");
  absl::StatusOr<uint32_t> key = core_->keys().Take();
  if (!key.ok()) return key.status();
  return std::make_unique<Window>(core_, *key);
}

}  // namespace farcall::softnic
