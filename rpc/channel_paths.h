// ChannelPaths: how a channel finds better paths than the connection that it was dialled by, its
// main one, and what becomes of them. For ChannelCore; belongs to its loop's driver.
//
//   stage       event                        to          and
//   resting     it is time                   asking      OFFERS on the main connection
//   asking      OFFERS came                  connecting  to the best that does not cool down
//   connecting  connected                    greeting    HELLO with the token
//   greeting    HELLO came                   probing     a small PROBE, and then a large one
//   probing     both came back               resting     new calls go by it
//   any         it failed or took too long   connecting  to the next; resting after the last
//
// The path that carries calls ends with the main connection. When it fails alone, the main one
// carries the new calls; it is tried again when it has cooled down, and so is each that is better
// than the one in use.

#ifndef FARCALL_RPC_CHANNEL_PATHS_H_
#define FARCALL_RPC_CHANNEL_PATHS_H_

#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/client_session.h"
#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/path.h"
#include "farcall/rpc/timer_wheel.h"
#include "farcall/rpc/transport.h"

namespace farcall {

class ChannelPaths final : private ClientSession::Owner, private Timer {
 public:
  // The channel: gets what becomes of calls, and is told of paths.
  class User : public ClientSession::Owner {
   public:
    virtual SessionOptions MakeSessionOptions(std::string token) = 0;
    // carrier() is another one.
    virtual void OnPathChanged() = 0;
    // A path is gone that was beside `main`; null: that is gone, too.
    virtual void OnPathGone(ClientSession* main) = 0;
  };

  ChannelPaths(EventLoop& loop, std::unique_ptr<PathSelector> selector, PathOptions options,
               User& user);
  ~ChannelPaths() override;

  // The session by which calls go instead of the main one; may be null.
  ClientSession* carrier() const { return carrier_.session.get(); }
  // Nothing is left that could call back.
  bool empty() const;

  // The main session is ready: looks for something better. Until then there is none.
  void Start(ClientSession& main);
  // The main session got what it was asked for.
  void TakeOffers(ClientSession& main, const std::vector<PathOffer>& offers);
  // Takes no new calls and looks for nothing any more; calls under way go on.
  void Leave();
  // `main`, the present or an earlier one, ended: the paths beside it end, too.
  void MainEnded(ClientSession& main, const absl::Status& status);
  // Whether a path beside `main` is not gone yet.
  bool LeansOn(const ClientSession& main) const;
  // The channel ends, and everything here.
  void Shutdown(const absl::Status& reason);

  // Any thread.
  PathReport Report(TimePoint now) const;

 private:
  enum class Stage { kResting, kAsking, kConnecting, kGreeting, kProbing };

  // A way that is better than the main connection.
  struct Way {
    PathCandidate candidate = {};  // of the last offers
    int failures = 0;              // in a row
    TimePoint retry_at{};          // not before this
    bool cooling = false;          // it was tried and failed
    std::string reason = {};       // why it does not carry calls
  };
  struct Path {
    std::unique_ptr<ClientSession> session;
    ClientSession* main = nullptr;
  };

  // ClientSession::Owner, of the sessions of paths
  void OnSessionReady(ClientSession& session) override;
  void OnCallLeft(ClientSession& session) override;
  void Finish(ClientCall& call, absl::Status&& status, Message&& reply) override {
    user_.Finish(call, std::move(status), std::move(reply));
  }
  void Return(ClientCall& call) override { user_.Return(call); }
  void OnSessionDraining(ClientSession& session) override;
  void OnSessionEnded(ClientSession& session, const absl::Status& status) override;
  void OnLateReply() override { user_.OnLateReply(); }
  void OnProbe(ClientSession& session, Buffer body) override;

  void OnTimer() override;  // the time of a stage is up

  void Enter(Stage stage);
  void Ask();
  void TryNext();
  void Connect(const Way& way);
  void OnConnected(absl::StatusOr<std::unique_ptr<Connection>> connection);
  void SendProbe();
  void Adopt();
  void FailAttempt(const std::string& why);
  void DropAttempt();
  void Rest();
  void PutOff(Way& way, const std::string& why);
  // New calls go by the main connection again. The session stays the caller's to end.
  void LoseCarrier(const std::string& why);
  // Takes no new calls; ends when it has none.
  void Retire(Path path);
  void Bury(std::unique_ptr<ClientSession> session);
  void Publish();

  EventLoop& loop_;
  const std::unique_ptr<PathSelector> selector_;
  const PathOptions options_;
  User& user_;

  std::vector<Way> ways_;          // the best first
  size_t current_ = 0;             // of ways_; their number: the main connection
  ClientSession* main_ = nullptr;  // ready
  std::string main_name_;
  Path carrier_;
  std::vector<Path> leaving_;

  Stage stage_ = Stage::kResting;
  size_t trying_ = 0;  // of ways_
  size_t probe_ = 0;   // that is out
  std::unique_ptr<Transport::PendingConnect> connecting_;
  std::unique_ptr<ClientSession> attempt_;
  std::minstd_rand random_;

  // What Report tells.
  struct Shown {
    std::string in_use;
    TimePoint since{};
    uint64_t changes = 0;
    bool looking = false;
    std::vector<Way> better;  // without what can be dialled
  };
  mutable Mutex mutex_;
  Shown shown_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farcall

#endif  // FARCALL_RPC_CHANNEL_PATHS_H_
