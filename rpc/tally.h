// Tally: a number that one thread at a time writes and any thread reads.
//
// The driver of a loop counts with it at the price of a plain number: no lock, no locked
// instruction. A reader sees a value that was true a moment ago; two tallies that belong together
// may be read at different moments.

#ifndef FARCALL_RPC_TALLY_H_
#define FARCALL_RPC_TALLY_H_

#include <atomic>
#include <cstdint>

namespace farcall {

class Tally {
 public:
  Tally() = default;
  Tally(const Tally& other) : value_(other) {}
  ~Tally() = default;

  // ---- any thread ----
  // NOLINTNEXTLINE(google-explicit-constructor): it is read as the number that it is
  operator uint64_t() const { return value_.load(std::memory_order_relaxed); }
  // The same; and what the writer did before IncrementAfterAll made it this value is seen, too.
  uint64_t Acquire() const { return value_.load(std::memory_order_acquire); }

  // ---- the writer ----
  Tally& operator=(const Tally& other) { return *this = static_cast<uint64_t>(other); }
  Tally& operator=(uint64_t value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  Tally& operator+=(uint64_t more) { return *this = *this + more; }
  Tally& operator-=(uint64_t less) { return *this = *this - less; }
  Tally& operator++() { return *this += 1; }
  Tally& operator--() { return *this -= 1; }
  void IncrementAfterAll() { value_.store(*this + 1, std::memory_order_release); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace farcall

#endif  // FARCALL_RPC_TALLY_H_
