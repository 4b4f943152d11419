// History: what happened in a simulated world, step by step, as a hash of all of it and as words
// for the last of it.

#ifndef FARCALL_TESTS_SIMULATION_HISTORY_H_
#define FARCALL_TESTS_SIMULATION_HISTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "farcall/rpc/clock.h"

namespace farcall::simulation {

enum class Did : uint8_t {
  kTurn,        // loop a
  kAdvance,     // a microseconds
  kStart,       // call a on channel b, with a timeout of c microseconds
  kSpawn,       // a coroutine for b calls on channel a
  kUnprepared,  // call a: there was no memory for its request
  kCancel,      // call a
  kEnd,         // call a with code b and outcome c
  kRun,         // call a on server b
  kReturn,      // call a with code b
  kLetGo,       // the handler of call a
  kClose,       // channel a
  kOpen,        // channel a
  kDrain,       // server a
  kListen,      // server a; b: whether it could
  kKill,        // server a
  kRemove,      // server a, which had drained
  kFinale,      // in manner a
};

class History {
 public:
  explicit History(const Clock& clock) : clock_(clock) {}

  void Add(Did did, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0);

  uint64_t hash() const { return hash_; }
  // The last `count` entries, a line each.
  std::string Last(size_t count) const;

 private:
  struct Entry {
    TimePoint when;
    Did did;
    uint64_t a, b, c;
  };
  static std::string Words(const Entry& entry);

  const Clock& clock_;
  std::vector<Entry> entries_;
  uint64_t hash_ = 0;
};

}  // namespace farcall::simulation

#endif  // FARCALL_TESTS_SIMULATION_HISTORY_H_
