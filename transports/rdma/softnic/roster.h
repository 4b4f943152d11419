// The queue pairs of a completion queue, so kept that a Poll and an Arm cost what there is to do,
// not how many connections there are.
//
// A queue pair is busy or idle. Every Poll drives the busy ones and every Arm arms them. An idle
// one has told its peer everything and awaits nothing but a message: a Poll looks at the next ring
// slots of a few of them, in turn, and Arm passes over those that keep the wish for a doorbell that
// they have. A message, a doorbell or a request makes it busy again.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_ROSTER_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_ROSTER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace farcall::softnic {

class SoftQueuePair;

// A queue pair has one for each of its completion queues.
struct Member {
  SoftQueuePair* pair = nullptr;
  size_t seat = 0;  // of the roster's
};

class Roster {
 public:
  void Add(Member& member);
  void Remove(Member& member);
  void MakeBusy(Member& member) {
    if (member.seat >= busy_) Wake(member.seat);
  }
  // The work of a Poll.
  void Drive();
  // False: there is work for Drive already.
  bool Arm();
  // To ERR, all of them.
  void FailAll();

 private:
  struct Seat {
    Member* member = nullptr;
    // Idle: where the next message shows, and what is there then. Null: none will come.
    const std::atomic<uint32_t>* next = nullptr;
    uint32_t shows = 0;
    uint32_t quiet_polls = 0;  // busy: since there was something to do
  };

  void Wake(size_t seat);
  void Rest(size_t seat);
  void Swap(size_t one, size_t other);
  void LookAtIdle();

  std::vector<Seat> seats_;  // the first `busy_` are busy
  size_t busy_ = 0;
  size_t next_look_ = 0;
  uint32_t rounds_ = 0;        // of looking at all idle ones
  bool unarmed_idle_ = false;  // some idle one has no wish for a doorbell
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_ROSTER_H_
