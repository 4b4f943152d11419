// The helper thread: parked beside callers that drive, driving when nobody does. And the making and
// unmaking of the state.

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "farcall/rpc/loop_state.h"
#include "farcall/rpc/resources.h"

namespace farcall {
namespace {

Duration SpinOf(const EventLoopOptions& options) {
  if (options.spin >= Duration::zero()) return options.spin;
  return std::thread::hardware_concurrency() > 2 ? Duration(std::chrono::microseconds(20))
                                                 : Duration::zero();
}

// Transports ask for the mode: a loop that never spins has no use for their pollers.
EventLoopOptions Effective(EventLoopOptions given) {
  if (given.mode == ProgressMode::kAdaptive && SpinOf(given) == Duration::zero()) {
    given.mode = ProgressMode::kEvent;
  }
  return given;
}

thread_local bool on_dedicated_thread = false;

}  // namespace

LoopState::LoopState(EventLoopOptions given)
    : options(Effective(std::move(given))),
      clock(options.clock != nullptr ? *options.clock : Clock::Steady()),
      spin(SpinOf(options)),
      has_helper(options.helper_thread || options.dedicated),
      timers(clock.Now()) {
  // The hint: one thread at a time runs it, though not always the same.
  io.emplace(BOOST_ASIO_CONCURRENCY_HINT_1);
  work_guard.emplace(io->get_executor());
  // Asio makes its epoll descriptors when the first timer or socket appears, and throws when there
  // are none left: better here, where whoever makes a loop can catch it, than on the driver.
  try {
    asio::steady_timer(*io).cancel();
  } catch (const boost::system::system_error& error) {
    throw std::system_error(error.code().value(), std::generic_category(), "epoll");
  }
  if (!has_helper) return;
  helper_event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (helper_event < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  if (options.dedicated) driven.store(true);  // on behalf of the thread that is about to start
}

LoopState::~LoopState() {
  // Handlers that die with Asio may queue something here (a suspended coroutine its unwinding), and
  // what dies here something there; all of it while Asio's services still exist for the sockets
  // and timers in it.
  work_guard.reset();
  do {
    io->Shutdown();
  } while (DropSubmissions() > 0);
  io.reset();
  if (helper_event >= 0) ::close(helper_event);
}

size_t LoopState::DropSubmissions() {
  LoopTaskQueue queue;
  {
    SpinLock lock(mutex);
    queue = std::exchange(submitted, {});
  }
  size_t count = 0;
  while (LoopTask* task = queue.first) {
    queue.first = task->next_;
    task->queued_.store(false, std::memory_order_relaxed);
    task->Drop();
    ++count;
  }
  return count;
}

void LoopState::StartHelper(std::shared_ptr<LoopState> self) {
  helper = StartThread(options.name, [self = std::move(self)] { self->HelperMain(); });
}

void LoopState::WakeHelper() {
  if (!has_helper || helper_woken.exchange(true)) return;
  const uint64_t one = 1;
  // Cannot fail: the counter is far from its limit and the descriptor is ours.
  [[maybe_unused]] const ssize_t written = ::write(helper_event, &one, sizeof(one));
}

// Not a futex: poll() with a time limit costs a lone caller nothing, and nobody has to wake a
// thread that looks by itself now and then.
void LoopState::Park(int timeout_ms) {
  pollfd event = {helper_event, POLLIN, 0};
  if (::poll(&event, 1, timeout_ms) <= 0) return;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(helper_event, &count, sizeof(count));
  helper_woken.store(false);  // before the caller looks at what it was woken for
}

// While one caller drives for long the helper need not look again: Release wakes it.
bool LoopState::ParkForGood() {
  // Not lock(): the driver must never find the lock taken by a thread that is only looking.
  if (!mutex.try_lock()) return false;
  helper_parked_for_good = driven.load(std::memory_order_relaxed);
  const bool parked = helper_parked_for_good;
  mutex.unlock();
  return parked;
}

void LoopState::HelperDrive() {
  {
    DriverScope scope(*this);
    caller_came.store(false, std::memory_order_relaxed);
    Drive(nullptr);
  }
  Release();
}

bool EventLoop::OnDedicatedThread() { return on_dedicated_thread; }

void LoopState::HelperMain() {
  if (options.dedicated) {
    on_dedicated_thread = true;
    HelperDrive();
    return;
  }
  using Milliseconds = std::chrono::milliseconds;
  constexpr int kPatienceMs =
      std::chrono::duration_cast<Milliseconds>(EventLoop::kIdleTakeover).count();
  constexpr int kLongestPatienceMs =
      std::chrono::duration_cast<Milliseconds>(EventLoop::kLongestTakeover).count();
  constexpr uint64_t kNotLooked = ~uint64_t{0};
  uint64_t seen = moves.load(std::memory_order_relaxed);
  int usual = kPatienceMs;
  int patience = usual;
  while (!stopping.load()) {
    Park(patience);
    const uint64_t latest = moves.load(std::memory_order_relaxed);
    const bool unmoved = latest == seen;
    seen = latest;
    // Callers that come again and again drive the loop, and each look is a system call.
    usual = unmoved || asio_used.load(std::memory_order_relaxed)
                ? kPatienceMs
                : std::min(2 * usual, kLongestPatienceMs);
    patience = usual;
    if (driven.load()) {
      if (unmoved && ParkForGood()) {
        patience = -1;
        seen = kNotLooked;
      }
      continue;
    }
    const bool needed = async_work.load() > 0 || has_submissions.load();
    if ((needed || unmoved) && !stopping.load() && TryTake(nullptr)) {
      HelperDrive();
      seen = moves.load(std::memory_order_relaxed);
    }
  }
}

}  // namespace farcall
