// A queue pair of the software NIC.
//
// Everything happens on the thread that posts and polls: a SEND is copied into the ring when it is
// posted, a READ is copied piece by piece in Poll, and messages of the peer are copied into posted
// receives in Poll. A SEND completes when the peer's device has taken it, so that what went wrong
// there can be told.
//
//   posted:    INIT, RTS, ERR        taken from the ring, sent, read: RTS only
//   INIT -> RTS   Establish          any -> ERR   Fail, a request that failed, the peer's end

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_QUEUE_PAIR_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_QUEUE_PAIR_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "farcall/transports/rdma/softnic/completion_queue.h"
#include "farcall/transports/rdma/softnic/device_core.h"
#include "farcall/transports/rdma/softnic/link.h"
#include "farcall/transports/rdma/softnic/protection_domain.h"
#include "farcall/transports/rdma/softnic/rings.h"

namespace farcall::softnic {

// Who made the queue pair: told what came on its control socket.
class QueuePairOwner {
 public:
  virtual ~QueuePairOwner() = default;
  virtual void OnReady() = 0;  // the active side is established
  // The peer left, died or lied; the queue pair is in ERR. Once.
  virtual void OnPeerGone(absl::Status status) = 0;
  virtual void OnRemoved() = 0;        // the device went
  virtual void OnQueuePairGone() = 0;  // it is being destroyed
};

// What an established pair knows of its peer.
struct PeerSide {
  Geometry geometry;
  std::optional<PeerMemory> segment;
  uint32_t keys = 0;
  std::optional<PeerMemory> key_table;
};

class SoftQueuePair : public rdma::QueuePair {
 public:
  static absl::StatusOr<std::unique_ptr<SoftQueuePair>> Create(
      std::shared_ptr<DeviceCore> device, std::shared_ptr<DomainCore> domain,
      const rdma::QueuePairOptions& options, QueuePairOwner& owner);
  ~SoftQueuePair() override;

  // ---- rdma::QueuePair ----
  absl::Status PostSend(std::span<const rdma::SendRequest> requests, size_t& posted) override;
  absl::Status PostReceive(std::span<const rdma::ReceiveRequest> requests, size_t& posted) override;
  void Fail() override { Fail(rdma::CompletionStatus::kRetryExceeded); }
  rdma::QueuePairState state() const override { return state_; }
  uint32_t number() const override { return number_; }
  uint32_t max_inline() const override { return max_inline_; }

  // ---- for the connection ----
  const OwnMemory& segment() const { return memory_; }
  const Geometry& geometry() { return outbound_.segment().geometry(); }
  const std::shared_ptr<DomainCore>& domain() const { return domain_; }
  // To RTS. `rnr_retry`: the patience that messages of the peer have when no receive is posted.
  void Establish(std::shared_ptr<Link> link, PeerSide peer, uint32_t rnr_retry);
  void Disown() { owner_ = nullptr; }
  // The peer is gone: what it had sent is delivered first. `died`: it did not say goodbye.
  void EndWith(absl::Status status, bool died);

  // ---- for the completion queues ----
  // True: there was something to do, or there will be.
  bool Progress();
  // What comes without a word on the ring: memory that is announced, the device's removal.
  void Housekeep();
  // Makes a wish for a doorbell, unless there is one. False: there is work for Progress already.
  bool Arm();
  // The wish stands: with the next message comes a doorbell.
  bool armed() const { return !touched_; }
  // Where the peer's next message shows, and what stands there then. Null: none will come.
  const std::atomic<uint32_t>* next_message(uint32_t& shows) const;
  // All that wait, or up to the first doorbell: there is seldom more behind one, and what there is
  // keeps the socket readable.
  void ReadPackets(bool to_doorbell = false);
  void Release(Side side, uint32_t released) {
    (side == Side::kSend ? send_released_ : receive_released_) = released;
  }

 private:
  enum class Step : uint8_t { kQueued, kSent, kDone };
  // All that a SEND needs which leaves as soon as it is posted.
  struct Work {
    uint64_t wr_id = 0;
    uint64_t arena_end = 0;     // SEND
    uint64_t completes_at = 0;  // polls; see Fault
    uint64_t bytes = 0;
    uint32_t message = 0;  // SEND: its number
    rdma::Opcode opcode = rdma::Opcode::kSend;
    Step step = Step::kQueued;
    rdma::CompletionStatus status = rdma::CompletionStatus::kSuccess;
    bool signaled = false;
  };
  // The rest of one that waits, or takes more than one step.
  struct Rest {
    rdma::SendRequest request;
    uint32_t bind_key = 0;    // BIND
    uint64_t read = 0;        // READ: bytes that are there
    uint64_t read_limit = 0;  // READ: fails when so many are there (a fault)
    uint64_t starts_at = 0;   // polls; see Fault
  };

  SoftQueuePair(std::shared_ptr<DeviceCore> device, std::shared_ptr<DomainCore> domain,
                const rdma::QueuePairOptions& options, Geometry geometry, OwnMemory memory,
                QueuePairOwner& owner);

  // ---- queue_pair.cc ----
  absl::Status Usable() const;
  void Fail(rdma::CompletionStatus told);
  void FlushSends(rdma::CompletionStatus first);
  void Violated(const char* rule);
  void HandlePacket(Packet& packet);
  bool ReadSlabs(const Packet& packet, bool with_files, SlabsPacket& slabs);
  absl::Status AddSlabs(const Packet& packet);
  absl::Status RemoveSlabs(const Packet& packet);
  void MakeBusy();
  void Unwatch();
  bool announced() const;  // there are notices of memory that were not read
  void ReadNotices();
  bool HasWork() const;
  void RingIfArmed(bool only_taken);

  // ---- sending.cc ----
  bool Fits(const rdma::SendRequest& request, uint64_t bytes) const;
  void Enqueue(const rdma::SendRequest& request, uint64_t bytes);
  void Queue(uint32_t index, const rdma::SendRequest& request);
  void StartQueued();
  void NoteStarted(const Work& work);
  bool Start(uint32_t index);
  bool Befall(Work& work, Rest& rest);
  bool StartSend(Work& work, const rdma::SendRequest& request);
  void Gather(const rdma::SendRequest& request, std::byte* to) const;
  void LookAtTaken();
  void OnRefused(rdma::CompletionStatus refusal);
  void ReadSome();
  bool MayAwaitSlab();
  bool ReadPiece(Work& work, Rest& rest, uint64_t bytes);
  void Retire();
  void Complete(const Work& work, rdma::CompletionStatus status);
  static void Done(Work& work, rdma::CompletionStatus status) {
    work.step = Step::kDone;
    work.status = status;
  }
  Work& work(uint32_t index) { return works_[index & (works_.size() - 1)]; }
  Rest& rest(uint32_t index) { return rests_[index & (rests_.size() - 1)]; }
  bool sends_outstanding() const { return send_retired_ != send_posted_; }
  // False: nothing has happened since StartQueued, ReadSome and Retire did all that they could.
  bool SendsMayMove() const {
    return outbound_.taken() != settled_taken_ || send_started_ != send_posted_ ||
           send_reading_ != send_started_ || refusal_ != rdma::CompletionStatus::kSuccess ||
           device_->faults != nullptr;
  }

  // ---- receiving.cc ----
  bool Receive(uint32_t limit);
  bool Deliver(const Inbound::Message& message);
  bool MayWaitForReceive();
  void PublishTaken();
  void CompleteReceive(rdma::CompletionStatus status, uint32_t bytes);

  // Constant after construction.
  const rdma::ForkGuard guard_;
  const std::shared_ptr<DeviceCore> device_;
  const std::shared_ptr<DomainCore> domain_;
  const std::shared_ptr<CompletionCore> send_queue_, receive_queue_;
  // The second only when the queues differ.
  Member send_member_{.pair = this}, receive_member_{.pair = this};
  const uint32_t number_, max_inline_, send_depth_, receive_depth_;
  OwnMemory memory_;

  QueuePairOwner* owner_;
  rdma::QueuePairState state_ = rdma::QueuePairState::kInit;
  std::shared_ptr<Link> link_;
  PeerSide peer_;
  uint32_t rnr_retry_ = 0;
  bool ended_ = false;  // the peer is gone
  PeerKeys peer_keys_;
  std::unordered_map<uint32_t, PeerMemory> slabs_;
  uint64_t mapped_bytes_ = 0;
  // When a READ gives up waiting for memory to be announced; nothing: none waits.
  std::optional<std::chrono::steady_clock::time_point> slab_deadline_;
  uint32_t notices_seen_ = 0;
  uint32_t asked_at_ = UINT32_MAX;  // notices seen when the peer was asked for the rest
  Outbound outbound_;
  Inbound inbound_;
  uint64_t polls_ = 1;

  // The send queue. Indices count up for ever: released <= retired <= reading, started <= posted.
  std::vector<Work> works_;
  std::vector<Rest> rests_;
  std::unique_ptr<std::byte[]> inlined_;  // of SENDs that wait, max_inline_ each
  uint32_t send_posted_ = 0, send_started_ = 0, send_reading_ = 0, send_retired_ = 0,
           send_released_ = 0;
  uint32_t settled_taken_ = 0;  // of outbound_: what SendsMayMove knows of
  rdma::CompletionStatus refusal_ = rdma::CompletionStatus::kSuccess;  // the peer takes no more
  bool stopped_ = false;  // a request failed: nothing behind it starts

  // The receive queue.
  std::vector<rdma::ReceiveRequest> receives_;
  uint32_t receive_posted_ = 0, receive_taken_ = 0, receive_released_ = 0;
  uint32_t told_taken_ = 0;  // what the peer knows of inbound_.taken()
  uint64_t told_position_ = 0;
  uint64_t taken_flags_ = 0;  // the refusal in SegmentHeader::taken, once there is one
  bool waiting_for_receive_ = false;
  std::chrono::steady_clock::time_point receive_deadline_;

  // Wishes for a doorbell: ours, and the last one of the peer's that was fulfilled.
  uint32_t armed_ = 0;
  bool touched_ = true;  // since armed_ was made: it may have been fulfilled
  uint32_t rung_ = 0;
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_QUEUE_PAIR_H_
