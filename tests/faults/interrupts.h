// Signals that come again and again and end the system call that they meet: EINTR.

#ifndef FARCALL_TESTS_FAULTS_INTERRUPTS_H_
#define FARCALL_TESTS_FAULTS_INTERRUPTS_H_

#include <cstdint>

#include "farcall/rpc/clock.h"

namespace farcall::faults {

class Interrupts {
 public:
  // From now on and to the end of the process a signal comes to this thread every `interval`; its
  // handler does not ask for system calls to be restarted.
  static void Begin(Duration interval);
  // How many came, to all threads.
  static int64_t count();
};

}  // namespace farcall::faults

#endif  // FARCALL_TESTS_FAULTS_INTERRUPTS_H_
