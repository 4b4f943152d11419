#include "farcall/tests/transports/rdma/anywhere.h"

#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "farcall/rpc/mutex.h"

namespace farcall::testing {
namespace {

using rdma::Access;
using rdma::MemoryRegion;
using rdma::SendRequest;

class ShadowedRegion;

// The regions that have a shadow.
struct Book {
  Mutex mutex;
  std::set<const ShadowedRegion*> regions ABSL_GUARDED_BY(mutex);
};

class ShadowedRegion final : public MemoryRegion {
 public:
  ShadowedRegion(std::shared_ptr<Book> book, std::span<std::byte> memory,
                 std::unique_ptr<MemoryRegion> shadow)
      : MemoryRegion(memory, shadow->lkey(), shadow->rkey()),
        book_(std::move(book)),
        shadow_(std::move(shadow)) {
    MutexLock lock(book_->mutex);
    book_->regions.insert(this);
  }
  ~ShadowedRegion() override {
    MutexLock lock(book_->mutex);
    book_->regions.erase(this);
  }

  const MemoryRegion& shadow() const { return *shadow_; }
  bool Covers(uint64_t address) const { return address - Base() < memory().size(); }
  uint64_t ShadowOf(uint64_t address) const {
    return reinterpret_cast<uintptr_t>(shadow_->memory().data()) + (address - Base());
  }
  void Update(uint64_t address, size_t bytes) const {
    const uint64_t offset = address - Base();
    std::memcpy(shadow_->memory().data() + offset, memory().data() + offset, bytes);
  }

 private:
  uint64_t Base() const { return reinterpret_cast<uintptr_t>(memory().data()); }

  const std::shared_ptr<Book> book_;
  const std::unique_ptr<MemoryRegion> shadow_;
};

class Domain final : public rdma::ProtectionDomain {
 public:
  Domain(std::unique_ptr<ProtectionDomain> inner, std::shared_ptr<Book> book)
      : inner_(std::move(inner)), book_(std::move(book)) {}
  ProtectionDomain& inner() { return *inner_; }

  absl::StatusOr<std::unique_ptr<MemoryRegion>> Allocate(size_t bytes, Access access) override {
    return inner_->Allocate(bytes, access);
  }
  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory,
                                                         Access access) override {
    if (!access.remote_read && !access.bind) return inner_->Register(memory, access);
    absl::StatusOr<std::unique_ptr<MemoryRegion>> shadow = inner_->Allocate(memory.size(), access);
    if (!shadow.ok()) return shadow.status();
    return std::make_unique<ShadowedRegion>(book_, memory, *std::move(shadow));
  }
  absl::StatusOr<std::unique_ptr<rdma::MemoryWindow>> AllocateWindow() override {
    return inner_->AllocateWindow();
  }

 private:
  const std::unique_ptr<ProtectionDomain> inner_;
  const std::shared_ptr<Book> book_;
};

class QueuePair final : public rdma::QueuePair {
 public:
  QueuePair(std::unique_ptr<rdma::QueuePair> inner, std::shared_ptr<Book> book)
      : inner_(std::move(inner)), book_(std::move(book)) {}

  absl::Status PostSend(std::span<const SendRequest> requests, size_t& posted) override {
    std::vector<SendRequest> real(requests.begin(), requests.end());
    {
      MutexLock lock(book_->mutex);
      for (SendRequest& request : real) Translate(request);
    }
    return inner_->PostSend(real, posted);
  }
  absl::Status PostReceive(std::span<const rdma::ReceiveRequest> requests,
                           size_t& posted) override {
    return inner_->PostReceive(requests, posted);
  }
  void Fail() override { inner_->Fail(); }
  rdma::QueuePairState state() const override { return inner_->state(); }
  uint32_t number() const override { return inner_->number(); }
  uint32_t max_inline() const override { return inner_->max_inline(); }

 private:
  void Translate(SendRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(book_->mutex) {
    for (const ShadowedRegion* region : book_->regions) {
      if (request.opcode == rdma::Opcode::kBind && request.region == region) {
        request.region = &region->shadow();
        request.bind_address = region->ShadowOf(request.bind_address);
      }
      if (request.opcode == rdma::Opcode::kRead && region->Covers(request.remote_address)) {
        region->Update(request.remote_address, request.sges[0].length);
        request.remote_address = region->ShadowOf(request.remote_address);
      }
    }
  }

  const std::unique_ptr<rdma::QueuePair> inner_;
  const std::shared_ptr<Book> book_;
};

class Channel;

class Id final : public rdma::ConnectionId {
 public:
  Id(std::unique_ptr<ConnectionId> inner, std::shared_ptr<Book> book)
      : inner_(std::move(inner)), book_(std::move(book)) {}
  ~Id() override;

  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> CreateQueuePair(
      rdma::ProtectionDomain& domain, const rdma::QueuePairOptions& options) override {
    auto pair = inner_->CreateQueuePair(static_cast<Domain&>(domain).inner(), options);
    if (!pair.ok()) return pair.status();
    return std::make_unique<QueuePair>(*std::move(pair), book_);
  }
  absl::Status Connect(const rdma::ConnectionParameters& parameters) override {
    return inner_->Connect(parameters);
  }
  absl::Status Accept(const rdma::ConnectionParameters& parameters) override {
    return inner_->Accept(parameters);
  }
  absl::Status Reject(std::span<const std::byte> private_data) override {
    return inner_->Reject(private_data);
  }
  void Disconnect() override { inner_->Disconnect(); }
  absl::Status MoveTo(rdma::EventChannel& channel) override;
  std::string peer() const override { return inner_->peer(); }
  void BelongTo(Channel* channel);

 private:
  const std::unique_ptr<ConnectionId> inner_;
  const std::shared_ptr<Book> book_;
  Channel* channel_ = nullptr;
};

// Outlives the ids whose events come to it, as in the engine.
class Channel final : public rdma::EventChannel {
 public:
  Channel(std::unique_ptr<EventChannel> inner, std::shared_ptr<Book> book)
      : inner_(std::move(inner)), book_(std::move(book)) {}

  EventChannel& inner() { return *inner_; }
  int fd() const override { return inner_->fd(); }
  std::optional<rdma::ConnectionEvent> Next() override {
    std::optional<rdma::ConnectionEvent> event = inner_->Next();
    if (!event.has_value()) return event;
    if (event->id != nullptr) {
      MutexLock lock(mutex_);
      event->id = ids_.at(event->id);
    }
    if (event->request != nullptr) {
      auto id = std::make_unique<Id>(std::move(event->request), book_);
      id->BelongTo(this);
      event->request = std::move(id);
    }
    return event;
  }
  void Put(rdma::ConnectionId* inner, Id* id) {
    MutexLock lock(mutex_);
    ids_[inner] = id;
  }
  void Drop(rdma::ConnectionId* inner) {
    MutexLock lock(mutex_);
    ids_.erase(inner);
  }

 private:
  const std::unique_ptr<EventChannel> inner_;
  const std::shared_ptr<Book> book_;
  Mutex mutex_;
  std::map<rdma::ConnectionId*, Id*> ids_ ABSL_GUARDED_BY(mutex_);
};

Id::~Id() {
  if (channel_ != nullptr) channel_->Drop(inner_.get());
}

void Id::BelongTo(Channel* channel) {
  if (channel_ != nullptr) channel_->Drop(inner_.get());
  channel_ = channel;
  channel_->Put(inner_.get(), this);
}

absl::Status Id::MoveTo(rdma::EventChannel& channel) {
  auto& to = static_cast<Channel&>(channel);
  BelongTo(&to);
  return inner_->MoveTo(to.inner());
}

class AnywhereDevice final : public rdma::Device {
 public:
  explicit AnywhereDevice(std::shared_ptr<Device> inner)
      : inner_(std::move(inner)), capabilities_(inner_->capabilities()) {
    capabilities_.remote_read_anywhere = true;
  }

  const rdma::Capabilities& capabilities() const override { return capabilities_; }
  absl::StatusOr<std::unique_ptr<rdma::ProtectionDomain>> CreateProtectionDomain() override {
    auto domain = inner_->CreateProtectionDomain();
    if (!domain.ok()) return domain.status();
    return std::make_unique<Domain>(*std::move(domain), book_);
  }
  absl::StatusOr<std::unique_ptr<rdma::CompletionQueue>> CreateCompletionQueue(
      uint32_t depth) override {
    return inner_->CreateCompletionQueue(depth);
  }
  absl::StatusOr<std::unique_ptr<rdma::EventChannel>> CreateEventChannel() override {
    auto channel = inner_->CreateEventChannel();
    if (!channel.ok()) return channel.status();
    return std::make_unique<Channel>(*std::move(channel), book_);
  }
  absl::StatusOr<std::unique_ptr<rdma::AddressListener>> Listen(rdma::EventChannel& channel,
                                                                std::string_view address) override {
    return inner_->Listen(static_cast<Channel&>(channel).inner(), address);
  }
  absl::StatusOr<std::unique_ptr<rdma::ConnectionId>> Resolve(rdma::EventChannel& channel,
                                                              std::string_view address) override {
    auto& to = static_cast<Channel&>(channel);
    auto inner = inner_->Resolve(to.inner(), address);
    if (!inner.ok()) return inner.status();
    auto id = std::make_unique<Id>(*std::move(inner), book_);
    id->BelongTo(&to);
    return id;
  }

 private:
  const std::shared_ptr<Device> inner_;
  rdma::Capabilities capabilities_;
  const std::shared_ptr<Book> book_ = std::make_shared<Book>();
};

}  // namespace

std::shared_ptr<rdma::Device> MakeAnywhereDevice(std::shared_ptr<rdma::Device> softnic) {
  return std::make_shared<AnywhereDevice>(std::move(softnic));
}

}  // namespace farcall::testing
