// Whether this process made what it is about to touch. A child of fork inherits sockets and objects
// of its parent's connections; shared memory it does not inherit (MADV_DONTFORK), and what it did
// to a socket would be done to the parent's connection.

#ifndef FARCALL_TRANSPORTS_RDMA_FORK_GUARD_H_
#define FARCALL_TRANSPORTS_RDMA_FORK_GUARD_H_

#include <cstdint>

namespace farcall::rdma {

class ForkGuard {
 public:
  ForkGuard();
  // A load and a comparison.
  bool inherited() const { return made_in_ != generation_; }

 private:
  static uint32_t generation_;  // forks between the first process and this one; written by atfork
  uint32_t made_in_;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_FORK_GUARD_H_
