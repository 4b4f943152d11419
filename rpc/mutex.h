// A std::mutex that clang's thread-safety analysis understands.
//
// absl::Mutex would be the natural choice, but the build that Debian 12 ships is not instrumented
// and makes ThreadSanitizer report races that do not exist.

#ifndef FARCALL_RPC_MUTEX_H_
#define FARCALL_RPC_MUTEX_H_

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

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_MUTEX_H_
