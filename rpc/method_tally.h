// What is counted of each method, on one loop of a server or in one channel: the cells behind
// MethodStats (rpc/metrics.h). The driver counts, any thread reads.

#ifndef FARCALL_RPC_METHOD_TALLY_H_
#define FARCALL_RPC_METHOD_TALLY_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "farcall/rpc/clock.h"
#include "farcall/rpc/method.h"
#include "farcall/rpc/metrics.h"
#include "farcall/rpc/tally.h"

namespace farcall {

using TalliesByStatus = std::array<Tally, kStatusCodes>;

inline Tally& Of(TalliesByStatus& tallies, absl::StatusCode code) {
  return tallies[static_cast<size_t>(code)];
}
void AddCounts(const TalliesByStatus& tallies, CountsByStatus& to);

// What a histogram records of a time that a clock may say is negative: turns read it once.
inline uint64_t Nanoseconds(Duration duration) {
  return duration > Duration::zero() ? static_cast<uint64_t>(duration.count()) : 0;
}

// The cells of one method. All but AddTo belong to the driver.
struct MethodTally {
  explicit MethodTally(const MethodInfo& method) : info(method) {}

  void End(absl::StatusCode code, Duration took) {
    ++Of(ended, code);
    latency.Record(Nanoseconds(took));
  }
  // Any thread.
  void AddTo(MethodStats& stats) const;

  const MethodInfo& info;
  Tally started, refused, not_sent, dropped, bytes_sent, bytes_received;
  TalliesByStatus ended;
  MethodLatency latency;

 private:
  friend class MethodTallies;
  MethodTally* next_ = nullptr;  // constant once it is in a list
};

// Of the methods that were called so far.
class MethodTallies {
 public:
  MethodTallies() = default;
  ~MethodTallies();
  MethodTallies(const MethodTallies&) = delete;
  MethodTallies& operator=(const MethodTallies&) = delete;

  // Driver only. Allocates for a method's first call. `method` is constant data: it stays.
  MethodTally& Of(const MethodInfo& method) {
    if (last_ == nullptr || last_->info.id != method.id) last_ = &Find(method);
    return *last_;
  }

  // Any thread: adds all to `stats`, by name.
  void AddTo(std::map<std::string, MethodStats>& stats) const;

 private:
  MethodTally& Find(const MethodInfo& method);

  MethodTally* last_ = nullptr;  // of the last call: mostly that of the next
  absl::flat_hash_map<uint64_t, MethodTally*> by_id_;
  std::atomic<MethodTally*> newest_{nullptr};  // a list that only grows: readers walk it
};

}  // namespace farcall

#endif  // FARCALL_RPC_METHOD_TALLY_H_
