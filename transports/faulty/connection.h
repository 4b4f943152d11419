// A connection between the user and the inner transport, where the accidents happen.
//
// Sends wait in `outbox_` before the inner connection gets them, its dones wait in `dones_`, and
// whole messages wait in `inbox_` before the user's receiver gets them. A cut closes the inner
// connection, drops what waits to be delivered and ends what waits to be sent, unsent.
//
// Touched on its loop's driver only.

#ifndef FARCALL_TRANSPORTS_FAULTY_CONNECTION_H_
#define FARCALL_TRANSPORTS_FAULTY_CONNECTION_H_

#include <map>
#include <memory>
#include <string>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/transport.h"
#include "farcall/transports/faulty/agenda.h"
#include "farcall/transports/faulty/dice.h"
#include "farcall/transports/faulty/faulty.h"

namespace farcall::faulty {

// Which accidents are its own.
struct Origin {
  uint64_t seed = 0;    // of the transport
  uint64_t number = 0;  // of the connection, from 1
};

class FaultyConnection final : public Connection, private Receiver {
 public:
  // Made on the loop.
  FaultyConnection(EventLoop& loop, std::unique_ptr<Connection> inner, const FaultPlan& plan,
                   Origin origin);

  const std::shared_ptr<BufferPool>& pool() const override { return inner_->pool(); }
  void Start(Receiver& receiver) override;
  Ticket Send(Message&& message, SendDone&& done) override;
  void Withdraw(Ticket ticket) override;
  void Abandon(Ticket ticket, absl::Status status) override;
  void Close(absl::Status status) override;
  ConnectionInfo info() const override { return inner_->info(); }

 private:
  struct Held {
    Ticket ticket = 0;
    Message message;
    SendDone done;
  };
  // With the inner connection, which has not called its done yet.
  struct Passed {
    Ticket inner_ticket = 0;
    size_t bytes = 0;
    SendDone done;
    bool withdrawn = false;  // its done must not wait any more
  };
  struct Ended {
    Ticket ticket = 0;
    SendDone done;
    SendResult result;
  };
  struct Delivery {
    enum class Kind { kMessage, kAbandoned, kClosed };
    Kind kind = Kind::kMessage;
    Ticket ticket = 0;
    Message message;
    absl::Status status;
  };

  // ---- sending ----
  absl::Status CheckRoomFor(const Message& message) const;
  void Pass(Held held);
  void ReleaseDue();
  void OnInnerDone(Ticket ticket, SendResult result);
  void EndSend(Ticket ticket, SendDone done, SendResult result, Duration delay);
  void FailHeld(const absl::Status& status);
  void RunDueDones();
  void RunAllDones();

  // ---- receiving ----
  Admission Admit(Ticket ticket, std::span<const std::byte> head, MessageSizes sizes) override;
  void OnMessage(Ticket ticket, Message&& message) override;
  void OnAbandoned(Ticket ticket, absl::Status status) override;
  void OnClosed(absl::Status status) override;
  TimePoint DeliveryTime(size_t payload_bytes);
  void DeliverDue();
  void Deliver(Delivery delivery);

  // ---- cutting ----
  void CutAboutSend(Held held);
  void CutIn(Duration delay, const char* when);
  void Cut(const char* when);

  // Constant after construction.
  EventLoop& loop_;
  const FaultPlan plan_;
  const Origin origin_;

  Dice dice_;
  Receiver* receiver_ = nullptr;
  bool shut_ = false;         // by Close or a cut: nothing but dones and OnClosed follow
  bool inner_gone_ = false;   // the inner connection called OnClosed
  bool closed_told_ = false;  // and so did we

  Ticket last_sent_ = 0;
  size_t pending_bytes_ = 0;  // of outbox_ and passed_
  TimePoint last_release_{};  // when the youngest held message may leave
  Agenda<Held> outbox_;
  std::map<Ticket, Passed> passed_;
  Agenda<Ended> dones_;

  uint64_t admitted_ = 0;
  Ticket cut_after_message_ = 0;     // cut when this one was delivered; 0: none
  TimePoint last_delivery_[2] = {};  // of small ones, of large ones
  Agenda<Delivery> inbox_;

  struct Scissors final : public Timer {
    explicit Scissors(FaultyConnection& owner) : connection(owner) {}
    void OnTimer() override { connection.Cut(when); }
    FaultyConnection& connection;
    const char* when = "";
  };
  Scissors scissors_{*this};

  // Last, so that it goes first and calls nobody who is half gone.
  const std::unique_ptr<Connection> inner_;
};

}  // namespace farcall::faulty

#endif  // FARCALL_TRANSPORTS_FAULTY_CONNECTION_H_
