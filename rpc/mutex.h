// A std::mutex that clang's thread-safety analysis understands.
//
// absl::Mutex would be the natural choice, but the build that Debian 12 ships is not instrumented
// and makes ThreadSanitizer report races that do not exist.

#ifndef FARCALL_RPC_MUTEX_H_
#define FARCALL_RPC_MUTEX_H_

#include <atomic>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace farcall {

class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

  // For std::unique_lock and std::condition_variable, which the analysis cannot follow.
  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
};

// For some tens of instructions that never wait for anything: half the price of a Mutex, for it is
// left by a plain store. Who finds it taken spins, and soon sleeps between looks.
class ABSL_LOCKABLE SpinMutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      WaitAndLock();
  }
  void unlock() ABSL_UNLOCK_FUNCTION() { taken_.store(false, std::memory_order_release); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return !taken_.exchange(true, std::memory_order_acquire);
  }

 private:
  void WaitAndLock();
  std::atomic<bool> taken_{false};
};

template <class M>
class ABSL_SCOPED_LOCKABLE BasicMutexLock {
 public:
  explicit BasicMutexLock(M& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~BasicMutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  BasicMutexLock(const BasicMutexLock&) = delete;
  BasicMutexLock& operator=(const BasicMutexLock&) = delete;

 private:
  M& mutex_;
};
using MutexLock = BasicMutexLock<Mutex>;
using SpinLock = BasicMutexLock<SpinMutex>;

}  // namespace farcall

#endif  // FARCALL_RPC_MUTEX_H_
