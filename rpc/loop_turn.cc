// A turn of the loop, and how the driver spends the time between turns.

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cassert>
#include <chrono>
#include <utility>

#include "farcall/rpc/loop_state.h"

namespace farcall {
namespace {

// Reading the clock costs about as much as polling an empty completion queue; at some tens of
// nanoseconds a spin this is still far finer than a tick of the wheel.
constexpr uint64_t kSpinsPerClockRead = 16;
// An io_context::poll is a system call. Beside pollers there is a pause before each: a short one
// while sockets have something, twice as long each time that they have nothing. It is one of time,
// not of turns, so that sockets are looked at however long turns are.
constexpr Duration kShortestAsioPause = std::chrono::microseconds(2);
constexpr Duration kLongestAsioPause = std::chrono::microseconds(250);
// The same when nothing is there but descriptors of pollers. They tell what no poller sees: that
// somebody connects, which can wait, and that a peer died, which is to be noticed within a second.
constexpr Duration kLongestPollersPause = std::chrono::milliseconds(200);
// End-of-turn tasks that add themselves again do not keep the loop from its sockets.
constexpr size_t kMaxEndOfTurnTasks = 10000;
// A driver that comes to its timers later than this was held up: its process was stopped, its
// machine suspended or overloaded, or a handler blocked it.
constexpr Duration kHeldUp = std::chrono::milliseconds(100);
// Handlers of Asio that run before the timers then: one for each of a server's connections.
constexpr size_t kMaxCatchUp = 100'000;
// A connection reads so many times its share of a turn, some MiB, and tasks that submit themselves
// do not hold up the timers.
constexpr int kMaxCatchUpRounds = 64;

// How long an adaptive driver goes on spinning after the last work.
class SpinBudget {
 public:
  explicit SpinBudget(Duration spin) : spin_(spin) {}

  void Renew() { idle_turns_ = 0; }
  // After a turn without work; false when the time is over.
  bool Spend() {
    if (idle_turns_++ == 0) {
      end_ = After(Clock::Steady().Now(), spin_);
      return true;
    }
    return idle_turns_ % kSpinsPerClockRead != 0 || Clock::Steady().Now() < end_;
  }

 private:
  const Duration spin_;
  uint64_t idle_turns_ = 0;
  TimePoint end_{};
};

}  // namespace

TimePoint LoopState::Now() {
  if (!now_read) {
    now_value = clock.Now();
    now_read = true;
  }
  return now_value;
}

bool LoopState::ShouldLeave(const BlockingTask* task) const {
  if (task != nullptr) return task->finished_;
  if (stopping.load(std::memory_order_relaxed)) return true;
  if (options.dedicated) return false;
  return has_waiters.load(std::memory_order_relaxed) ||
         (caller_came.load(std::memory_order_relaxed) &&
          async_work.load(std::memory_order_relaxed) == 0);
}

bool LoopState::Spins(const BlockingTask* task) const {
  switch (options.mode) {
    case ProgressMode::kEvent:
      return false;
    case ProgressMode::kAdaptive:
      return spin > Duration::zero();
    case ProgressMode::kBusy:  // nobody waits: an idle client burns no core
      return task != nullptr || options.dedicated || async_work.load(std::memory_order_relaxed) > 0;
  }
  return false;
}

void LoopState::DriveFor(BlockingTask& task, bool start) noexcept {
  if (start) {
    now_read = task.begun_ != TimePoint{};
    if (now_read) now_value = std::max(now_value, task.begun_);
    if (has_submissions.load(std::memory_order_relaxed)) RunSubmissions();  // they came first
    task.Run();
    RunEndOfTurn();
    if (task.finished_) return;
  }
  Drive(&task);
}

void LoopState::Drive(const BlockingTask* task) noexcept {
  SpinBudget budget(spin);
  bool spinning = Spins(task);
  while (true) {
    const bool look_at_clock = !spinning || turns % kSpinsPerClockRead == 0;
    const size_t work =
        Turn(look_at_clock ? Timers::kByTick : Timers::kSkip, spinning && AsioIsDue() ? 1 : 0);
    if (ShouldLeave(task)) return;
    spinning = Spins(task);
    if (spinning && options.mode == ProgressMode::kAdaptive) {
      if (work > 0) {
        budget.Renew();
      } else {
        spinning = budget.Spend();
      }
    }
    if (spinning) continue;
    Sleep();
    budget.Renew();
    if (task != nullptr && task->finished_) {  // no need to look at anything else first
      RunEndOfTurn();
      return;
    }
    spinning = Spins(task);
  }
}

size_t LoopState::Turn(Timers timers_to_fire, size_t asio_limit) {
  now_read = false;
  ++turns;
  size_t work = 0;
  if (has_submissions.load(std::memory_order_acquire)) work += RunSubmissions();
  if (timers_to_fire != Timers::kSkip && timers.size() != 0) work += FireTimers(timers_to_fire);
  if (!pollers.empty()) work += PollPollers();
  if (asio_limit > 0) work += PollAsio(asio_limit);
  if (!end_of_turn.empty()) work += RunEndOfTurn();
  return work;
}

size_t LoopState::FireTimers(Timers timers_to_fire) {
  const TimePoint now = Now();
  const TimePoint last_look = std::exchange(last_timer_look, now);
  size_t work = 0;
  if (timers_to_fire == Timers::kByTick) {
    const TimePoint wake = timers.NextWake();
    if (now < wake) return 0;
    // A wheel that stood for long beside deadlines that are always new names a time that had gone
    // by before they were made.
    if (now - std::max(wake, last_look) >= kHeldUp) work = CatchUp();
  }
  return work + timers.Advance(Now());
}

size_t LoopState::RunSubmissions() {
  if (running.first == nullptr) {  // otherwise: called from a task of this very list
    SpinLock lock(mutex);
    running = std::exchange(submitted, {});
    has_submissions.store(false);
  }
  size_t count = 0;
  while (running.first != nullptr) {
    LoopTask& task = *running.first;
    running.first = task.next_;
    task.queued_.exchange(false, std::memory_order_acq_rel);  // see Submit
    task.Run();
    ++count;
  }
  return count;
}

// Looks at what came while this loop stood still, so that a peer is not taken for silent, nor a
// call for unanswered, while the answer lies in the socket.
size_t LoopState::CatchUp() {
  const TimePoint begin = clock.Now();
  size_t work = 0;
  for (int round = 0; round < kMaxCatchUpRounds && clock.Now() - begin < kHeldUp; ++round) {
    size_t done = PollPollers() + PollAsio(kMaxCatchUp);
    done += RunEndOfTurn();
    if (has_submissions.load(std::memory_order_acquire)) done += RunSubmissions();
    if (done == 0) break;
    work += done;
  }
  return work;
}

// ---- end of turn ----

void LoopState::AddToEndOfTurn(LoopTask& task) {
  assert(DrivenByThisThread());
  if (std::exchange(task.ends_turn_, true)) return;
  end_of_turn.push_back(&task);
}

void LoopState::CancelEndOfTurn(LoopTask& task) {
  assert(DrivenByThisThread());
  if (!std::exchange(task.ends_turn_, false)) return;
  std::replace(end_of_turn.begin(), end_of_turn.end(), &task, static_cast<LoopTask*>(nullptr));
}

size_t LoopState::RunEndOfTurn() {
  size_t taken = 0;
  size_t count = 0;
  while (taken < std::min(end_of_turn.size(), kMaxEndOfTurnTasks)) {
    LoopTask* task = std::exchange(end_of_turn[taken++], nullptr);
    if (task == nullptr) continue;
    task->ends_turn_ = false;
    task->Run();
    ++count;
  }
  // A task may have destroyed the loop, which empties the list.
  const size_t done = std::min(taken, end_of_turn.size());
  end_of_turn.erase(end_of_turn.begin(), end_of_turn.begin() + static_cast<ptrdiff_t>(done));
  return count;
}

// ---- pollers and Asio ----

void LoopState::RemovePoller(Poller& poller) {
  assert(DrivenByThisThread());
  std::replace(pollers.begin(), pollers.end(), &poller, static_cast<Poller*>(nullptr));
  pollers_removed = true;
}

size_t LoopState::PollPollers() {
  size_t work = 0;
  for (size_t i = 0; i < pollers.size(); ++i) {  // Poll may add and remove pollers
    if (pollers[i] != nullptr) work += pollers[i]->Poll();
  }
  if (std::exchange(pollers_removed, false)) std::erase(pollers, nullptr);
  return work;
}

bool LoopState::AsioIsDue() const {
  if (pollers.empty()) return true;
  if (turns % kSpinsPerClockRead != 0) return false;
  // Asio may be used since the pause was planned.
  const Duration pause = asio_used.load(std::memory_order_relaxed)
                             ? std::min(asio_pause, kLongestAsioPause)
                             : asio_pause;
  return Clock::Steady().Now() - last_asio_poll >= pause;
}

void LoopState::PlanAsioPoll(bool found) {
  asio_pause = found ? kShortestAsioPause
                     : std::clamp(2 * asio_pause, kShortestAsioPause, kLongestPollersPause);
  last_asio_poll = Clock::Steady().Now();
}

size_t LoopState::PollAsio(size_t limit) {
  size_t work = 0;
  while (work < limit && io->poll_one() > 0) {
    ++work;
    if (stopping.load(std::memory_order_relaxed)) break;
  }
  if (!pollers.empty()) PlanAsioPoll(work > 0);
  return work;
}

// ---- sleeping ----

void LoopState::Sleep() {
  bool armed = true;
  for (size_t i = 0; armed && i < pollers.size(); ++i) {
    if (pollers[i] != nullptr) armed = pollers[i]->Arm();
  }
  if (armed && end_of_turn.empty()) {
    sleeping.store(true);  // before the next look: see `sleeping`
    if (!has_submissions.load() && !stopping.load()) {
      WaitInAsio();
      sleeping.store(false);
      return;
    }
    sleeping.store(false);
  }
  // No sleep, but sockets get their turn beside busy pollers and submitters.
  now_read = false;
  if (AsioIsDue()) PollAsio(1);
}

void LoopState::WaitInAsio() {
  // One handler a turn: each is followed by the end of turn that sends what it wrote, and the next
  // one that is ready costs no epoll_wait.
  const TimePoint wake = timers.NextWake();
  size_t ran = 0;
  if (wake == TimePoint::max()) {
    now_read = false;
    ran = io->run_one();
  } else {
    Duration left = wake - Now();
    now_read = false;  // the handler runs after the sleep
    // Another clock may jump at any time.
    if (&clock != &Clock::Steady()) left = std::min<Duration>(left, std::chrono::milliseconds(1));
    ran = left > Duration::zero() ? io->run_one_for(left) : io->poll_one();
  }
  if (ran == 0 && io->stopped()) io->restart();  // somebody stopped it: it is not his to stop
}

}  // namespace farcall
