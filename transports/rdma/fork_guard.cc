#include "farcall/transports/rdma/fork_guard.h"

#include <pthread.h>

namespace farcall::rdma {

uint32_t ForkGuard::generation_ = 0;

ForkGuard::ForkGuard() : made_in_(generation_) {
  // The child has one thread, so nobody else reads what its handler writes.
  [[maybe_unused]] static const int kRegistered =
      ::pthread_atfork(nullptr, nullptr, [] { ++generation_; });
}

}  // namespace farcall::rdma
