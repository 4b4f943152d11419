// Calls of all sizes at once, as many as there can be, until told to stop: eager and rendezvous,
// requests and replies.

#ifndef FARCALL_TESTS_FAULTS_MIX_H_
#define FARCALL_TESTS_FAULTS_MIX_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "farcall/tests/services/journal.h"

namespace farcall::faults {

class Mix {
 public:
  static constexpr int kOutstanding = 4;  // of each size
  static constexpr size_t kSizes[] = {0, 200, 8000, 60'000, 300'000, 2'000'000};
  static constexpr uint64_t kSlots = kOutstanding * std::size(kSizes);

  // The numbers of its calls begin at `first` and end within kNumbers.
  static constexpr uint64_t kNumbers = uint64_t{1} << 40;
  explicit Mix(const Channel& channel, uint64_t first = 1,
               Duration timeout = std::chrono::seconds(60)) {
    for (const size_t bytes : kSizes) {
      loads_.push_back(std::make_unique<testing::JournalLoad>(
          channel, testing::JournalLoad::Options{.outstanding = kOutstanding,
                                                 .first = first,
                                                 .work_us = 0,
                                                 .data_bytes = bytes,
                                                 .reply_bytes = bytes,
                                                 .timeout = timeout}));
      first += kNumbers / std::size(kSizes);
    }
  }

  // Calls of every size succeeded so often.
  bool Succeeded(uint64_t each) const {
    for (const auto& load : loads_) {
      if (load->succeeded() < each) return false;
    }
    return true;
  }
  uint64_t succeeded() const {
    uint64_t sum = 0;
    for (const auto& load : loads_) sum += load->succeeded();
    return sum;
  }
  uint64_t failed() const {
    uint64_t sum = 0;
    for (const auto& load : loads_) sum += load->failed();
    return sum;
  }
  bool Stop(Duration bound) {
    bool stopped = true;
    for (const auto& load : loads_) stopped = load->Stop(bound) && stopped;
    return stopped;
  }
  testing::JournalEnds ends() const {
    testing::JournalEnds all;
    for (const auto& load : loads_) all.merge(load->ends());
    return all;
  }

 private:
  std::vector<std::unique_ptr<testing::JournalLoad>> loads_;
};

}  // namespace farcall::faults

#endif  // FARCALL_TESTS_FAULTS_MIX_H_
