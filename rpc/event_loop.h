// EventLoop: the one place where progress is made.
//
// A Boost.Asio io_context plus pollers, tasks and deadlines, driven by one thread at a time:
// whoever holds the driver token. A server's loop is driven by its own thread. A client's loop is
// driven by a thread that is blocked in a call when there is one (whoever waits, works: a
// synchronous call costs no thread hop), otherwise by the loop's helper thread, which also keeps
// idle loops alive. When a blocked caller leaves, the token goes to another waiter, to the helper
// if asynchronous work is pending, or stays free for the next caller; a helper that finds nobody
// drove for kIdleTakeover takes it.
//
// Callbacks and inline handlers run on whichever thread drives. So do not hold a lock that a
// callback takes while making a blocking call, and do not block in a callback. A callback that
// throws ends the program: there is nobody to catch it.
//
// Steady state of a lone blocked caller: two uncontended locks a call, no system call beyond what
// the pollers and sockets make, no allocation, no other thread (tests/rpc/event_loop_idle_test.cc
// holds it to that).

#ifndef FARCALL_RPC_EVENT_LOOP_H_
#define FARCALL_RPC_EVENT_LOOP_H_

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/asio.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/timer_wheel.h"

namespace farcall {

class LoopExecutor;
struct LoopState;  // rpc/loop_state.h

enum class ProgressMode {
  kEvent,     // sleeps in the kernel whenever there is nothing to do
  kBusy,      // never sleeps while somebody waits: lowest latency, one core
  kAdaptive,  // spins for `spin` after the last work, then sleeps
};

struct EventLoopOptions {
  ProgressMode mode = ProgressMode::kAdaptive;
  // How long kAdaptive spins. Negative: the default, 20 us, and 0 on machines with two cores or
  // fewer, where a spinning thread takes the core that its peer needs.
  Duration spin = Duration(-1);
  Clock* clock = nullptr;        // nullptr: Clock::Steady()
  std::string name = "farcall";  // of the helper thread, as top shows it (15 characters)
  // false: no thread of its own; somebody calls RunOnce (tests, simulations) or blocks.
  bool helper_thread = true;
  // A server's loop: the helper thread is the driver for good. It obeys `mode` even when nobody
  // waits (kBusy spins always), and a blocked caller sleeps instead of driving.
  bool dedicated = false;
};

// Intrusive unit of work; whoever submits it owns it and keeps it until Run. Run may destroy it or
// submit it again.
class LoopTask {
 public:
  virtual ~LoopTask() = default;
  virtual void Run() = 0;

 private:
  friend struct LoopState;
  // Instead of Run, when the loop is gone for good: frees a task that owns itself.
  virtual void Drop() {}

  LoopTask* next_ = nullptr;
  std::atomic<bool> queued_{false};
  bool ends_turn_ = false;
};

// Something to be looked at in every turn while the loop spins: a completion queue, a socket that
// was active just now.
class Poller {
 public:
  virtual ~Poller() = default;
  // Does what is there without blocking; returns how many events it handled. It bounds its own
  // share of a turn: what it leaves is taken in the next.
  virtual size_t Poll() = 0;
  // The loop wants to sleep: make sure that the next event wakes it through io(). False: events are
  // there already.
  virtual bool Arm() = 0;
};

// A blocking call's stake in the loop: lives on the blocked thread's stack. Run() starts the work
// on the driver.
class BlockingTask : public LoopTask {
 public:
  // Driver only, once, also from inside Run: lets the blocked thread go. The task must not be
  // touched afterwards.
  void Finish();

 protected:
  // What the loop's clock said just before RunBlocking, for who has read it: spares a driver the
  // reading.
  TimePoint begun_{};

 private:
  friend class EventLoop;
  friend struct LoopState;

  // Where a thread waits. Only those that do have one.
  struct Bench {
    Mutex mutex;
    std::condition_variable wake;
  };

  // Sets one of the two below and lets Wait go.
  void Wake(bool BlockingTask::*why);
  // Until somebody else finished this task (false) or gave it the token (true).
  bool Wait();

  LoopState* loop_ = nullptr;
  bool finished_ = false;  // written by the driver; under bench_'s lock if others wait
  bool granted_ = false;   // the token is this task's; likewise
  BlockingTask* next_waiter_ = nullptr;  // under the loop's lock
  Bench* bench_ = nullptr;               // of the thread that waits
};

class EventLoop {
 public:
  // How long a free token may lie before the helper picks it up. Bounds how late PINGs, user timers
  // and the like are noticed beside a caller that makes one blocking call after the other.
  static constexpr Duration kIdleTakeover = std::chrono::milliseconds(5);
  // The same while such calls go on, in a loop where only pollers use Asio (poller_io).
  static constexpr Duration kLongestTakeover = std::chrono::milliseconds(320);

  // Takes four file descriptors and, with a helper, a thread. Throws std::system_error when the
  // system has none left; Create says it by a status.
  explicit EventLoop(EventLoopOptions options = {});
  // The same. RESOURCE_EXHAUSTED names what is missing and which limit to raise.
  static absl::StatusOr<std::shared_ptr<EventLoop>> Create(EventLoopOptions options = {});
  // Stops the helper and runs what was submitted before, on this thread. Nobody may be blocked in
  // it. May run on the helper itself (from a callback that dropped the last owner): the thread then
  // ends by itself. Timers still armed are disarmed, pollers forgotten, and Asio's pending handlers
  // destroyed without being run.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // ---- any thread ----

  // True on the thread that holds the driver token.
  bool IsDriver() const;
  // True on the thread of some dedicated loop, a server's: what blocks there holds up everybody
  // whom that loop serves.
  static bool OnDedicatedThread();

  // Runs `task` in a coming turn, in order of submission, never inline; wakes the loop. No
  // allocation. A task that is queued already stays where it is. In a loop without a helper it
  // waits until somebody drives.
  void Submit(LoopTask& task);
  // The same for a callable; one allocation.
  void Post(absl::AnyInvocable<void()> work);

  // Starts `task` on the driver and returns when it has called Finish, driving the loop on this
  // thread if it can. The task bounds its own time. FAILED_PRECONDITION at once, without running
  // it, when this thread drives the loop already.
  absl::Status RunBlocking(BlockingTask& task);

  // An executor for coroutines and handlers on this loop (rpc/loop_executor.h); dispatch runs
  // inline on the driver. Its copies must not be used after the loop is gone.
  LoopExecutor executor();
  // For sockets, descriptors and timers of the transports. Post to executor(), not to io(): what is
  // posted here while the token is free lies until somebody drives.
  asio::io_context& io();
  // The same, for descriptors that a poller needs only to be woken. Unless io() or an executor's
  // context was asked for, too, a driver that spins looks at them five times a second when nothing
  // comes of it: fewer calls a second do not mean more system calls each.
  asio::io_context& poller_io();
  Clock& clock() const;
  // As it works: kEvent for an adaptive loop that spins for no time at all.
  ProgressMode mode() const;

  // While the count is above zero somebody must drive even when nobody is blocked: pending
  // asynchronous calls.
  void AddAsyncWork();
  void RemoveAsyncWork();

  // ---- driver only ----

  // The time of this turn: read when first asked for, the same until the turn ends.
  TimePoint now() const;
  // Fire when they are due; in a loop that was held up for long (a stopped process, a suspended
  // machine, a handler that blocked) after a look at what its sockets got meanwhile.
  TimerWheel& timers();
  // Runs `task` once at the end of this turn, before the loop may sleep: batching writes. Runs
  // tasks added by tasks too. Added again before it ran, it still runs once.
  void RunAtEndOfTurn(LoopTask& task);
  // Takes it back, for an owner that goes before the turn ends. A no-op when it is not there.
  void CancelEndOfTurn(LoopTask& task);
  void AddPoller(Poller& poller);
  void RemovePoller(Poller& poller);  // also from inside Poll

  // ---- stepping, for loops without a helper ----

  // Takes the token, makes one turn without sleeping, releases it. Returns how much work was done,
  // 0 when idle or when somebody else drives.
  size_t RunOnce();

 private:
  std::shared_ptr<LoopState> state_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_EVENT_LOOP_H_
