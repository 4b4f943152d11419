#include "farcall/transports/rdma/fork_guard.h"

#include <pthread.h>

namespace farcall::rdma {

std::atomic<uint32_t> ForkGuard::generation_ = 0;

ForkGuard::ForkGuard() : made_in_(Generation()) {
  [[maybe_unused]] static const int kRegistered =
      ::pthread_atfork(nullptr, nullptr, [] { ++generation_; });
}

}  // namespace farcall::rdma
