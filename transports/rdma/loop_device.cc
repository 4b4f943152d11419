#include "farcall/transports/rdma/loop_device.h"

#include <algorithm>
#include <boost/asio/execution_context.hpp>
#include <cassert>
#include <utility>

#include "farcall/rpc/probe.h"
#include "farcall/transports/rdma/limits.h"

namespace farcall::rdma {
namespace {

// The devices of a loop. Lives in its io_context and dies with it.
class LoopDevices final : public asio::execution_context::service {
 public:
  using key_type = LoopDevices;
  static inline asio::execution_context::id id;

  explicit LoopDevices(asio::execution_context& context) : service(context) {}

  std::vector<std::weak_ptr<LoopDevice>> all;

 private:
  // Connections that linger, and those that were not destroyed in time, go with the loop.
  void shutdown() override {
    for (const auto& weak : std::exchange(all, {})) {
      if (const auto device = weak.lock()) device->OnLoopGone();
    }
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<LoopDevice>> LoopDevice::Of(EventLoop& loop,
                                                           const std::shared_ptr<Device>& device) {
  auto& devices = asio::use_service<LoopDevices>(loop.poller_io()).all;
  std::erase_if(devices, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : devices) {
    const auto found = weak.lock();
    if (found != nullptr && found->device_ == device) return found;
  }
  absl::StatusOr<std::unique_ptr<EventChannel>> channel = device->CreateEventChannel();
  if (!channel.ok()) return channel.status();
  auto made = std::make_shared<LoopDevice>(loop, device, *std::move(channel));
  made->WaitForEvents();
  devices.push_back(made);
  return made;
}

LoopDevice::LoopDevice(EventLoop& loop, std::shared_ptr<Device> device,
                       std::unique_ptr<EventChannel> channel)
    : loop_(loop), device_(std::move(device)), channel_(std::move(channel)) {
  channel_watch_.emplace(loop_.poller_io(), channel_->fd(), [this] { ReadEvents(); });
}

LoopDevice::~LoopDevice() {
  if (loop_gone_) return;
  loop_.CancelEndOfTurn(end_of_turn_);
  if (polled_) loop_.RemovePoller(*this);
}

void LoopDevice::OnLoopGone() {
  loop_gone_ = true;
  channel_watch_.reset();
  for (const auto& queue : queues_) queue->watch.reset();
  // They may remove themselves while they go.
  std::vector<Place> places = std::exchange(places_, {});
  places.clear();
  removed_.clear();
}

// ---- queues ----

absl::StatusOr<std::shared_ptr<LoopQueue>> LoopDevice::TakeQueue(uint32_t depth) {
  for (const auto& queue : queues_) {
    if (queue->free < depth || !queue->queue->status().ok()) continue;
    queue->free -= depth;
    return queue;
  }
  const uint64_t wanted = uint64_t{depth} * kConnectionsPerQueue;
  const auto all = static_cast<uint32_t>(
      std::min<uint64_t>(wanted, device_->capabilities().max_completion_depth));
  absl::StatusOr<std::unique_ptr<CompletionQueue>> made = device_->CreateCompletionQueue(all);
  if (!made.ok()) return made.status();
  if (all < depth) {
    return absl::InvalidArgumentError("the device has no completion queue of this receive depth");
  }
  auto queue = std::make_shared<LoopQueue>();
  queue->queue = *std::move(made);
  queue->depth = all;
  queue->free = all - depth;
  queue->watch.emplace(loop_.poller_io(), queue->queue->fd(),
                       [queue = queue.get()] { queue->noticed = true; });
  queues_.push_back(queue);
  if (!std::exchange(polled_, true)) loop_.AddPoller(*this);
  return queue;
}

void LoopDevice::GiveBack(const std::shared_ptr<LoopQueue>& queue, uint32_t depth) {
  queue->free += depth;
  if (queue->free != queue->depth) return;
  queue->watch.reset();
  std::erase(queues_, queue);
  if (queues_.empty() && !loop_gone_ && std::exchange(polled_, false)) loop_.RemovePoller(*this);
}

size_t LoopDevice::Poll() {
  size_t handled = 0;
  for (size_t i = 0; i < queues_.size(); ++i) handled += PollQueue(queues_[i]);
  return handled;
}

size_t LoopDevice::PollQueue(const std::shared_ptr<LoopQueue>& queue) {
  if (std::exchange(queue->noticed, false)) queue->queue->Drain();
  FARCALL_PROBE(kPolls);
  const size_t count = queue->queue->Poll(completions_);
  if (count == 0) [[likely]] {
    if (++queue->empty_polls % kPollsPerCheck == 0) CheckQueue(queue);
    return 0;
  }
  Handle(count);
  return count;
}

void LoopDevice::Handle(size_t count) {
  // What callbacks remove, and so this device, stays until Run.
  for (size_t i = 0; i < count; ++i) {
    const Completion& completion = completions_[i];
    const WorkId id = WorkId::Unpack(completion.wr_id);
    // Whoever it was for may have gone meanwhile, and somebody else be in its place.
    Worker* const worker = id.place < places_.size() ? places_[id.place].worker.get() : nullptr;
    if (worker != nullptr && worker->queue_pair() == completion.queue_pair) {
      worker->OnCompletion(completion, id);
    }
  }
}

void LoopDevice::CheckQueue(const std::shared_ptr<LoopQueue>& queue) {
  const absl::Status status = queue->queue->status();
  if (status.ok()) return;
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): `queue` goes with its last user
  const std::shared_ptr<LoopQueue> keep = queue;
  for (size_t place = 0; place < places_.size(); ++place) {
    const auto worker = places_[place].worker;
    if (worker != nullptr) worker->OnQueueDead(*keep, status);
  }
}

bool LoopDevice::Arm() {
  for (size_t i = 0; i < queues_.size(); ++i) {
    const std::shared_ptr<LoopQueue> queue = queues_[i];
    if (std::exchange(queue->noticed, false)) queue->queue->Drain();
    CheckQueue(queue);
    if (!queue->queue->Arm() || PollQueue(queue) > 0) return false;
    if (queue->watch.has_value()) queue->watch->Wait();
  }
  return true;
}

// ---- connection events ----

void LoopDevice::WaitForEvents() {
  if (channel_watch_.has_value()) channel_watch_->Wait();
}

void LoopDevice::ReadEvents() {
  const auto keep = shared_from_this();
  for (int i = 0; i < kEventsPerTurn; ++i) {
    std::optional<ConnectionEvent> event = channel_->Next();
    if (!event.has_value()) break;
    const auto owner = owners_.find(event->id);
    if (owner != owners_.end()) owner->second->OnEvent(*event);
  }
  WaitForEvents();
}

// ---- workers ----

uint32_t LoopDevice::Add(std::shared_ptr<Worker> worker) {
  uint32_t place = 0;
  if (free_places_.empty()) {
    place = static_cast<uint32_t>(places_.size());
    assert(place < WorkId::kMaxPlaces);
    places_.emplace_back();
  } else {
    place = free_places_.back();
    free_places_.pop_back();
  }
  places_[place].worker = std::move(worker);
  return place;
}

void LoopDevice::Remove(uint32_t place) {
  if (loop_gone_ || place >= places_.size() || places_[place].worker == nullptr) return;
  removed_.push_back(std::move(places_[place].worker));
  free_places_.push_back(place);
  SubmitResume();
}

void LoopDevice::FlushSoon(uint32_t place) {
  if (loop_gone_ || std::exchange(places_[place].flush, true)) return;
  if (flush_.empty()) loop_.RunAtEndOfTurn(end_of_turn_);
  flush_.push_back(place);
}

void LoopDevice::FlushAll() {
  flushing_.swap(flush_);
  for (const uint32_t place : flushing_) {
    places_[place].flush = false;
    const std::shared_ptr<Worker>& worker = places_[place].worker;
    if (worker != nullptr) worker->Flush();
  }
  flushing_.clear();
}

void LoopDevice::ResumeSoon(uint32_t place) {
  if (loop_gone_ || std::exchange(places_[place].resume, true)) return;
  resume_.push_back(place);
  SubmitResume();
}

void LoopDevice::SubmitResume() {
  if (keep_ != nullptr) return;
  keep_ = shared_from_this();
  loop_.Submit(*this);
}

void LoopDevice::Run() {
  const std::shared_ptr<LoopDevice> keep = std::move(keep_);
  for (const uint32_t place : std::exchange(resume_, {})) {
    places_[place].resume = false;
    const std::shared_ptr<Worker> worker = places_[place].worker;
    if (worker != nullptr) worker->Resume();
  }
  // No frame of theirs is on the stack here.
  std::vector<std::shared_ptr<Worker>> removed = std::exchange(removed_, {});
  removed.clear();
}

void LoopDevice::Drop() { keep_.reset(); }

}  // namespace farcall::rdma
