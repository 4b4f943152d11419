#include "farcall/tests/faults/interrupts.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

namespace farcall::faults {
namespace {

// Free for the program, and the C library needs none of its kind.
constexpr int kSignal = SIGUSR2;

std::atomic<int64_t> came{0};

void OnSignal(int) { came.fetch_add(1, std::memory_order_relaxed); }

void Check(int result, const char* what) {
  if (result != 0) throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

void Interrupts::Begin(Duration interval) {
  struct sigaction action {};
  action.sa_handler = &OnSignal;  // and no SA_RESTART
  Check(::sigaction(kSignal, &action, nullptr), "sigaction");
  sigset_t ours;
  ::sigemptyset(&ours);
  ::sigaddset(&ours, kSignal);
  ::pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);  // the library's threads block all

  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = kSignal;
  event._sigev_un._tid = ::gettid();
  timer_t timer{};
  Check(::timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create");
  const timespec every{0, static_cast<long>(interval.count())};
  const itimerspec times{every, every};
  Check(::timer_settime(timer, 0, &times, nullptr), "timer_settime");
}

int64_t Interrupts::count() { return came.load(std::memory_order_relaxed); }

}  // namespace farcall::faults
