// LoopDevice: what all connections of one EventLoop and one device share: completion queues, which
// are polled in every turn, the channel of connection events, and what only one connection at a
// time needs. Kept by those who use it. Driver only.
//
// A busy loop polls the queues and makes no system call. A loop that wants to sleep drains, arms
// and polls every queue until it is empty, and sleeps on their descriptors.

#ifndef FARCALL_TRANSPORTS_RDMA_LOOP_DEVICE_H_
#define FARCALL_TRANSPORTS_RDMA_LOOP_DEVICE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/idle_memory.h"
#include "farcall/rpc/log.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/fd_watch.h"
#include "farcall/transports/rdma/limits.h"

namespace farcall::rdma {

// What a completion is of.
enum class WorkKind : uint8_t { kReceive, kSend, kRead, kBind, kInvalidate };

// What a work request is called: which connection, what it does, to what.
struct WorkId {
  uint32_t place = 0;  // of the connection, below kMaxPlaces
  WorkKind kind = WorkKind::kSend;
  uint32_t value = 0;  // a receive buffer, a transfer

  static constexpr uint32_t kMaxPlaces = 1 << 24;
  uint64_t Pack() const {
    return uint64_t{place} << 40 | uint64_t{static_cast<uint8_t>(kind)} << 32 | value;
  }
  static WorkId Unpack(uint64_t id) {
    return {static_cast<uint32_t>(id >> 40), static_cast<WorkKind>(id >> 32 & 0xff),
            static_cast<uint32_t>(id)};
  }
};

struct LoopQueue;

// Somebody whose work requests complete here. Holds the LoopDevice.
class Worker {
 public:
  virtual ~Worker() = default;
  virtual uint32_t queue_pair() const = 0;  // 0: none any more
  virtual void OnCompletion(const Completion& completion, WorkId id) = 0;
  // A completion queue is dead: perhaps its own.
  virtual void OnQueueDead(const LoopQueue& queue, const absl::Status& status) = 0;
  // The end of a turn in which it called FlushSoon.
  virtual void Flush() = 0;
  // A turn after ResumeSoon: for what must not happen inside of a call.
  virtual void Resume() = 0;
};

// Somebody who has a ConnectionId. May destroy it, and itself, when it is told.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual void OnEvent(ConnectionEvent& event) = 0;
};

// A completion queue and how much of it is promised.
struct LoopQueue {
  std::unique_ptr<CompletionQueue> queue;
  uint32_t depth = 0, free = 0;
  bool noticed = false;  // fd() was readable: Drain is due
  uint32_t empty_polls = 0;
  std::optional<FdWatch> watch;  // goes before the queue
};

class LoopDevice final : public std::enable_shared_from_this<LoopDevice>,
                         private Poller,
                         private LoopTask {
 public:
  // That of `loop` and `device`, made when there is none. RESOURCE_EXHAUSTED: no descriptors left.
  static absl::StatusOr<std::shared_ptr<LoopDevice>> Of(EventLoop& loop,
                                                        const std::shared_ptr<Device>& device);
  LoopDevice(EventLoop& loop, std::shared_ptr<Device> device,
             std::unique_ptr<EventChannel> channel);
  ~LoopDevice() override;

  EventLoop& loop() { return loop_; }
  Device& device() { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  EventChannel& channel() { return *channel_; }
  IdleMemory& idle_memory() { return idle_memory_; }
  LogThrottle& warnings() { return warnings_; }
  // Connections that linger until their peers speak: theirs to count.
  size_t& silent_peers() { return silent_peers_; }

  // A queue with room for `depth` more completions, which are promised until GiveBack.
  absl::StatusOr<std::shared_ptr<LoopQueue>> TakeQueue(uint32_t depth);
  void GiveBack(const std::shared_ptr<LoopQueue>& queue, uint32_t depth);

  // Keeps `worker` until Remove; returns its place.
  uint32_t Add(std::shared_ptr<Worker> worker);
  // It is destroyed in a later turn.
  void Remove(uint32_t place);
  void FlushSoon(uint32_t place);
  void ResumeSoon(uint32_t place);

  // From now on `owner` gets the events of `id`, until Forget.
  void Watch(const ConnectionId& id, ConnectionOwner& owner) { owners_[&id] = &owner; }
  void Forget(const ConnectionId& id) { owners_.erase(&id); }
  // Takes what events there are.
  void ReadEvents();

  // The loop is about to go, and everybody with it.
  void OnLoopGone();

 private:
  class EndOfTurn final : public LoopTask {
   public:
    explicit EndOfTurn(LoopDevice& device) : device_(device) {}
    void Run() override { device_.FlushAll(); }

   private:
    LoopDevice& device_;
  };
  struct Place {
    std::shared_ptr<Worker> worker;
    bool flush = false, resume = false;  // it is in the list
  };

  size_t Poll() override;
  bool Arm() override;
  void Run() override;   // ResumeSoon's turn
  void Drop() override;  // the loop is gone
  size_t PollQueue(const std::shared_ptr<LoopQueue>& queue);
  void Handle(size_t count);  // of completions_
  void CheckQueue(const std::shared_ptr<LoopQueue>& queue);
  void FlushAll();
  void WaitForEvents();
  void SubmitResume();

  // Constant after construction.
  EventLoop& loop_;
  const std::shared_ptr<Device> device_;
  const std::unique_ptr<EventChannel> channel_;

  std::optional<FdWatch> channel_watch_;
  std::vector<std::shared_ptr<LoopQueue>> queues_;
  bool polled_ = false;  // a poller of the loop
  bool loop_gone_ = false;

  std::vector<Place> places_;
  std::vector<uint32_t> free_places_;
  std::vector<uint32_t> flush_, flushing_, resume_;
  std::vector<std::shared_ptr<Worker>> removed_;
  absl::flat_hash_map<const ConnectionId*, ConnectionOwner*> owners_;

  EndOfTurn end_of_turn_{*this};
  std::shared_ptr<LoopDevice> keep_;                         // until Run
  std::array<Completion, kCompletionsPerPoll> completions_;  // of one poll, reused
  IdleMemory idle_memory_;
  LogThrottle warnings_;
  size_t silent_peers_ = 0;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_LOOP_DEVICE_H_
