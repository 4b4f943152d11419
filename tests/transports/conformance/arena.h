// Arena: the loops, the transport and the connections of one test, and the clean-up that proves
// that nothing is left.
//
// The test is a script on the main thread. In the stepped layouts that thread drives the loops
// while it waits (RunUntil); in the threaded one the loops have helper threads. Catch2's assertions
// are for the main thread only: callbacks that see a promise broken call Blame.

#ifndef FARCALL_TESTS_TRANSPORTS_CONFORMANCE_ARENA_H_
#define FARCALL_TESTS_TRANSPORTS_CONFORMANCE_ARENA_H_

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "farcall/rpc/event_loop.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/transport.h"
#include "farcall/tests/from_environment.h"
#include "farcall/tests/transports/conformance.h"
#include "farcall/tests/transports/conformance/peer.h"

namespace farcall::testing {

enum class Layout { kOneLoop, kTwoLoops, kThreads };

// Longer than anything takes on a loaded machine under a sanitizer; a test that waits it out fails.
inline const Duration kPatience = Patience(std::chrono::seconds(20));
// For what must not happen: long enough that it would have.
inline constexpr Duration kQuiet = std::chrono::milliseconds(20);

struct Pair {
  Peer& client;
  Peer& server;
};

class Arena {
 public:
  // With a manual clock (stepped layouts only) time stands still while there is anything to do and
  // then goes on by a tick: everything happens at the same moment in every run.
  Arena(const TransportUnderTest& subject, Layout layout, TransportLimits limits = {},
        ManualClock* manual_clock = nullptr);
  ~Arena();

  const TransportUnderTest& subject() const { return subject_; }
  Layout layout() const { return layout_; }
  Transport& transport() { return *transport_; }
  void DropTransport() { transport_ = nullptr; }
  EventLoop& client_loop() { return *loops_.front(); }
  EventLoop& server_loop() { return *loops_[layout_ == Layout::kOneLoop ? 0 : 1]; }
  // One more loop, driven like the others.
  EventLoop& NewLoop();

  // Drives or sleeps until `done`; false when `patience` is over.
  bool RunUntil(const std::function<bool()>& done, Duration patience = kPatience);
  void RunFor(Duration time) {
    RunUntil([] { return false; }, time);
  }
  // Runs `work` on the loop's driver and returns when it ran.
  void On(EventLoop& loop, const std::function<void()>& work);

  // Listens where the subject says; the connections go to Accepted.
  Listener& Listen(std::vector<EventLoop*> loops);
  // The next accepted connection, started unless `start` is false.
  Peer& Accepted(bool start = true);
  // A connection from the client's loop to a listener on the server's.
  Pair Connect(bool start = true);
  // Takes over a connection that the test made on `loop`.
  Peer& Adopt(std::string name, EventLoop& loop, std::unique_ptr<Connection> connection);
  // A message each way arrives.
  void ExpectAlive(Pair pair);

  // Any thread: a promise was broken.
  void Blame(std::string what);

  // Closes and destroys everything, and checks that every callback ran, no unsent message arrived
  // and every buffer came home.
  void Finish();

 private:
  bool Stepped() const { return layout_ != Layout::kThreads; }
  std::vector<Peer*> Peers();
  void DestroyAll();
  void CheckPools();

  const TransportUnderTest& subject_;
  const Layout layout_;
  ManualClock* const manual_clock_;
  std::vector<std::unique_ptr<EventLoop>> loops_;
  std::shared_ptr<Transport> transport_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  Listener* listener_ = nullptr;  // of Connect

  Mutex mutex_;
  std::vector<std::unique_ptr<Peer>> peers_ ABSL_GUARDED_BY(mutex_);
  std::deque<Peer*> accepted_ ABSL_GUARDED_BY(mutex_);
  std::set<std::shared_ptr<BufferPool>> pools_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> blames_ ABSL_GUARDED_BY(mutex_);
};

// One Connect, cleaned up on its loop.
class Dial {
 public:
  Dial(Arena& arena, EventLoop& loop, const Endpoint& endpoint, Duration timeout = kPatience);
  ~Dial();

  bool ended() const;
  // Waits for the end: how it went.
  absl::Status Wait();
  // The same; fails the test when it was not a connection.
  std::unique_ptr<Connection> Take();
  // Drops the handle.
  void Cancel();
  // Whether `done` still exists, run or not.
  bool holds_done() const { return !done_.expired(); }

 private:
  struct State {
    bool inside = false;  // Connect is on the stack; touched on the loop only
    Mutex mutex;
    std::optional<absl::StatusOr<std::unique_ptr<Connection>>> result ABSL_GUARDED_BY(mutex);
  };
  Arena& arena_;
  EventLoop& loop_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::weak_ptr<int> done_;
  std::unique_ptr<Transport::PendingConnect> handle_;
};

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_TRANSPORTS_CONFORMANCE_ARENA_H_
