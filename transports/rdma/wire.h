// Wire: one connected queue pair that moves messages; what stands behind an RdmaConnection. It
// performs what the protocol's parts decide (README.md) on a device.
//
// wire.cc: life, from the first receive to the last completion; wire_receive.cc: what arrives;
// wire_send.cc: what leaves; wire_transfers.cc: rendezvous, both ways.
//
// Everything runs on the driver of the loop. Callbacks of the user run from completions (messages
// that are here, payloads that the peer has read), from Flush at the end of the turn, and from
// Resume.

#ifndef FARCALL_TRANSPORTS_RDMA_WIRE_H_
#define FARCALL_TRANSPORTS_RDMA_WIRE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "farcall/rpc/buffer_pool.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/timer_wheel.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/rdma/credits.h"
#include "farcall/transports/rdma/delivery_order.h"
#include "farcall/transports/rdma/device.h"
#include "farcall/transports/rdma/envelope.h"
#include "farcall/transports/rdma/fifo.h"
#include "farcall/transports/rdma/incoming_transfers.h"
#include "farcall/transports/rdma/loop_device.h"
#include "farcall/transports/rdma/memory_domain.h"
#include "farcall/transports/rdma/outbox.h"
#include "farcall/transports/rdma/outgoing_transfers.h"
#include "farcall/transports/rdma/rdma.h"
#include "farcall/transports/rdma/read_queue.h"
#include "farcall/transports/rdma/receive_buffers.h"
#include "farcall/transports/rdma/send_slots.h"
#include "farcall/transports/rdma/settings.h"
#include "farcall/transports/rdma/windows.h"

namespace farcall::rdma {

// RdmaCounters while a connection counts them.
struct RdmaTallies {
  Tally sends, inline_sends, reads, doorbells, signaled, eager_messages, rendezvous_messages,
      credit_messages, credit_stalls, slot_stalls, copies, registrations;
};

class Wire final : public std::enable_shared_from_this<Wire>,
                   public Worker,
                   public ConnectionOwner {
 public:
  struct Names {
    std::string peer, local;  // as ConnectionInfo has them
  };

  // The queue pair of `id`, which is resolved or a request, with its receives posted. Not OK: the
  // device, or the memory of the transport, has no more.
  static absl::StatusOr<std::shared_ptr<Wire>> Create(std::shared_ptr<LoopDevice> device,
                                                      std::unique_ptr<ConnectionId> id,
                                                      std::shared_ptr<const Settings> settings,
                                                      Names names);
  Wire(std::shared_ptr<LoopDevice> device, std::unique_ptr<ConnectionId> id,
       std::shared_ptr<const Settings> settings, Names names);
  ~Wire() override;

  // ---- the handshake ----
  absl::Status Connect();
  absl::Status Accept();
  // What the peer said of itself in the handshake, `event`. Not OK: this side cannot live with it.
  static absl::Status CheckPeer(const ConnectionEvent& event, Parameters& peer);
  absl::Status MeetPeer(const ConnectionEvent& event);
  // Established: events of the connection come here from now on.
  void Begin(bool active);
  // Not to be: everything goes.
  void GiveUp();

  // ---- the contract's Connection ----
  void Start(Receiver& receiver);
  Ticket Send(Message&& message, SendDone&& done);
  void Withdraw(Ticket ticket);
  void Abandon(Ticket ticket, absl::Status status);
  void Close(absl::Status status);
  ConnectionInfo info() const;
  const std::shared_ptr<BufferPool>& pool() const { return send_pool_; }
  // The connection is destroyed: no callback any more.
  void Detach();

  RdmaCounters counters() const;

 private:
  struct Arrival {
    uint32_t buffer = 0;
    uint32_t bytes = 0;
  };
  struct Control {
    Kind kind = Kind::kFin;
    uint32_t transfer = 0;
    uint8_t status = 0;
  };
  // The first piece of a SEND.
  struct Lead {
    std::span<std::byte> bytes;
    uint32_t key = 0;
    Buffer staged;  // what holds the bytes, when it is not a slot's front
  };
  // The receiver's own memory for an attachment that is read.
  struct ForeignSink {
    const MemoryRegion* region = nullptr;
    std::unique_ptr<MemoryRegion> own;  // of this READ alone; none: a UserMemory's
  };
  struct Told {
    Ticket ticket = 0;
    absl::Status status;
  };
  class Alarm final : public Timer {
   public:
    using Method = void (Wire::*)();
    Alarm(Wire& wire, Method method) : wire_(wire), method_(method) {}
    void OnTimer() override { (wire_.*method_)(); }

   private:
    Wire& wire_;
    const Method method_;
  };

  // ---- life (wire.cc) ----
  absl::Status SetUp();
  absl::Status SetUpMemory();
  ConnectionParameters OurParameters(const ParametersBytes& bytes) const;
  uint32_t queue_pair() const override { return number_; }
  void OnCompletion(const Completion& completion, WorkId id) override;
  void OnFailed(const Completion& completion, WorkId id);
  void OnQueueDead(const LoopQueue& queue, const absl::Status& status) override;
  void OnEvent(ConnectionEvent& event) override;
  void Resume() override;
  void RunDones();
  void Fail(const absl::Status& status);
  void Violation(const absl::Status& rule);
  void Shut(absl::Status status);
  void KeepLastWords(const absl::Status& why);
  std::vector<Message> TakeLastWords();
  void SayLastWords();
  void Linger();
  void LookAtLinger();
  void OnLingerOver() { DestroyQueuePair(); }
  void DestroyQueuePair();
  void TellClosed();
  void OnHousekeeping();
  void KeepHouse();
  bool live() const { return pair_ != nullptr && !shut_; }
  void FlushSoon() { device_->FlushSoon(place_); }
  void ResumeSoon() { device_->ResumeSoon(place_); }
  absl::Status Named(const absl::Status& status) const;

  // ---- receiving (wire_receive.cc) ----
  void OnArrival(Arrival arrival);
  void TakeIn(Arrival arrival);
  void Finish();
  absl::Status PostReceive(uint32_t buffer);
  bool OnMessage(const Envelope& envelope, Arrival arrival);
  absl::Status OnRts(const Envelope& envelope, std::span<const std::byte> received);
  absl::Status CheckFits(const MessageSizes& sizes, const Message& message) const;
  absl::Status TakeHead(std::span<const std::byte> bytes, Message& message);
  absl::Status TakeParts(const Envelope& envelope, const Layout& layout, Arrival arrival,
                         Buffer attachment, Message& message, bool& lent);
  void CountReceived(const Message& message);
  void Deliver(Ticket ticket, Message&& message);
  void DeliverInOrder();
  void TellAbandoned();

  // ---- sending (wire_send.cc) ----
  bool SendAtOnce(Message& message);
  void Flush() override;
  void PostAll();
  void PostControls();
  void PostMessages();
  bool PostMessage(Outbox::Item& item);
  std::optional<Layout> EagerLayoutOf(const Message& message) const;
  absl::Status PostEager(Message& message, const Layout& layout);
  void PostInline(Message& message, const Layout& layout);
  bool PostOffer(Outbox::Item& item);
  void PostRts(Envelope envelope, const Layout& layout, std::span<const std::byte> head);
  bool EndUnsent(const absl::Status& status);
  bool Stall();
  void CountSent(const Message& message);
  absl::StatusOr<bool> MakeReadable(Buffer& part, Outbox::Copy& copy);
  Region Bind(const Buffer& part, uint32_t transfer, Windows::Bound& bound);
  void PostCredit(bool wants_completion);
  void PostSmall(Envelope envelope, bool wants_completion);
  absl::StatusOr<Lead> MakeLead(size_t bytes, bool inlined);
  SendRequest& Add(Opcode opcode, WorkId id, bool wants_completion);
  void AddSend(std::span<const std::byte> lead, uint32_t lead_key, const Buffer* tail, bool inlined,
               bool wants_completion = false);
  void Ring();
  bool MaySend(Kind kind) const { return credits_->CanSend(kind) && slots_.free() > 0; }
  bool Sendable(const Buffer& part);
  uint32_t LocalKey(const Buffer& part);
  const MemoryRegion* UserRegion(UserRegions& regions, const Buffer& part);

  // ---- rendezvous (wire_transfers.cc) ----
  void Perform();
  void PerformOutgoing(OutgoingTransfers::Action& action);
  void PerformIncoming(IncomingTransfers::Action& action);
  void Revoke(uint32_t transfer);
  void BeginReading();
  bool FindMemory();
  absl::Status FindSink(uint32_t transfer, uint64_t bytes, Buffer& part);
  bool FindForeignSink(uint32_t transfer, Buffer& part);
  void StartReads(uint32_t transfer, ReadSegments segments);
  void PostReads();
  void OnReadDone(uint32_t transfer);

  // Constant after construction.
  EventLoop& loop_;
  const std::shared_ptr<LoopDevice> device_;
  const std::shared_ptr<const Settings> settings_;
  const Names names_;

  // The device's. Constant after SetUp, until DestroyQueuePair.
  std::shared_ptr<LoopQueue> queue_;
  std::unique_ptr<ConnectionId> id_;
  std::unique_ptr<QueuePair> pair_;
  uint32_t number_ = 0;  // of pair_, while there is one
  uint32_t max_inline_ = 0;
  uint32_t place_ = WorkId::kMaxPlaces;

  // Memory.
  std::shared_ptr<MemoryDomain> memory_;
  std::shared_ptr<BufferPool> send_pool_, receive_pool_;  // of memory_, and what names theirs
  const DeviceMemory* send_memory_ = nullptr;
  const DeviceMemory* receive_memory_ = nullptr;
  std::unique_ptr<MemoryRegion> fronts_;  // kFrontBytes for each slot of the send queue
  ReceiveBuffers::Owner receives_;
  std::optional<Windows> windows_;
  bool user_memory_refused_ = false;                          // by the device: which was said
  absl::flat_hash_map<uint32_t, ForeignSink> foreign_sinks_;  // by transfer

  // The protocol; made by MeetPeer.
  uint32_t peer_receive_bytes_ = 0;
  std::optional<Credits> credits_;
  std::optional<OutgoingTransfers> outgoing_;
  std::optional<IncomingTransfers> incoming_;
  std::optional<ReadQueue> reads_;
  std::optional<DeliveryOrder> order_;
  OutgoingTransfers::Actions outgoing_actions_;  // kept for their capacity
  IncomingTransfers::Actions incoming_actions_;

  // Sending.
  Outbox outbox_;
  std::vector<Outbox::Ended> ending_;  // kept for its capacity
  SendSlots slots_;
  Fifo<Control> controls_;
  Fifo<uint32_t> revokes_;  // transfers whose windows are to be invalidated
  // The list that is gathered: at most kMaxBatch requests, until Ring; and of those that are
  // inline, which the device copies then, what they are made of.
  std::array<SendRequest, kMaxBatch> batch_;
  size_t batched_ = 0;
  std::vector<Buffer> sent_;
  alignas(kBufferAlignment) std::array<std::byte, kMaxBatch * kFrontBytes> inline_fronts_;
  absl::flat_hash_map<uint32_t, Outbox::Charge> offered_;  // by transfer
  uint32_t sends_;                                         // SENDs, modulo 2^32
  bool speak_first_ = false;                               // the active side's first SEND is due
  bool may_send_ = false;                                  // passive: the active side has spoken
  bool sent_early_ = false;                                // in this turn, before its end

  // Receiving.
  Receiver* receiver_ = nullptr;
  bool started_ = false;  // messages are delivered
  Fifo<Arrival> early_;   // what came before
  Ticket last_ticket_ = 0;
  std::vector<Told> abandoned_;  // OnAbandoned follows

  // The end.
  bool detached_ = false;       // nobody is told anything any more
  bool flushed_early_ = false;  // the queue pair ended before Start: what had come is still told
  absl::Status cause_;          // the first error of the queue pair; its receives are being flushed
  bool shut_ = false;           // no message moves any more; close_status_ says why
  bool closed_told_ = false;
  std::vector<Message> last_words_;  // passive: for when the active side has spoken
  absl::Status close_status_;
  bool performing_ = false;

  ConnectionTallies counters_;
  RdmaTallies tallies_;
  Alarm linger_timer_{*this, &Wire::OnLingerOver};
  Alarm housekeeping_timer_{*this, &Wire::OnHousekeeping};
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_WIRE_H_
