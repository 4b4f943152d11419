#include "farcall/rpc/method_tally.h"

#include <algorithm>

namespace farcall {

void AddCounts(const TalliesByStatus& tallies, CountsByStatus& to) {
  for (size_t code = 0; code < kStatusCodes; ++code) to[code] += tallies[code];
}

void MethodTally::AddTo(MethodStats& stats) const {
  uint64_t ends = 0;
  for (size_t code = 0; code < kStatusCodes; ++code) {
    const uint64_t count = ended[code];
    stats.ended[code] += count;
    ends += count;
  }
  // After the ends: what is running is never less than nothing.
  const uint64_t begun = started;
  stats.started += begun;
  stats.running += begun - std::min(begun, ends);
  stats.refused += refused;
  stats.not_sent += not_sent;
  stats.dropped += dropped;
  stats.bytes_sent += bytes_sent;
  stats.bytes_received += bytes_received;
  stats.latency.Add(latency);
}

MethodTallies::~MethodTallies() {
  for (const MethodTally* tally = newest_; tally != nullptr;) {
    const std::unique_ptr<const MethodTally> gone(tally);
    tally = gone->next_;
  }
}

MethodTally& MethodTallies::Find(const MethodInfo& method) {
  if (const auto found = by_id_.find(method.id); found != by_id_.end()) return *found->second;
  auto tally = std::make_unique<MethodTally>(method);
  by_id_.emplace(method.id, tally.get());
  tally->next_ = newest_.load(std::memory_order_relaxed);
  newest_.store(tally.get(), std::memory_order_release);
  return *tally.release();
}

void MethodTallies::AddTo(std::map<std::string, MethodStats>& stats) const {
  for (const MethodTally* tally = newest_.load(std::memory_order_acquire); tally != nullptr;
       tally = tally->next_) {
    MethodStats& of = stats[std::string(tally->info.name)];
    of.name = tally->info.name;
    tally->AddTo(of);
  }
}

}  // namespace farcall
