// What measured payloads hold, so that a reply shows that it is the answer to its request: a stamp
// at each end, and, where replies are compared in full, a pattern between them.
#ifndef FARCALL_BENCH_MEASURE_PAYLOAD_H_
#define FARCALL_BENCH_MEASURE_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace farcall::bench {

struct Stamps {
  uint64_t first = 0;
  uint64_t last = 0;
  friend bool operator==(const Stamps&, const Stamps&) = default;
};

// Both stamps fit without touching each other; the least that a measured payload may have.
inline constexpr size_t kMinPayloadBytes = sizeof(Stamps);

// Of the call with that number: no two calls share one, and its two differ.
inline Stamps StampsFor(uint64_t call) { return {call, ~call}; }

inline void SetStamps(std::span<uint8_t> payload, const Stamps& stamps) {
  std::memcpy(payload.data(), &stamps.first, sizeof(stamps.first));
  std::memcpy(payload.data() + payload.size() - sizeof(stamps.last), &stamps.last,
              sizeof(stamps.last));
}

// Requires kMinPayloadBytes.
inline Stamps StampsOf(std::span<const uint8_t> payload) {
  Stamps stamps;
  std::memcpy(&stamps.first, payload.data(), sizeof(stamps.first));
  std::memcpy(&stamps.last, payload.data() + payload.size() - sizeof(stamps.last),
              sizeof(stamps.last));
  return stamps;
}

inline uint8_t PatternAt(size_t offset) {
  return static_cast<uint8_t>(offset * 167 + (offset >> 8));
}

inline void FillPattern(std::span<uint8_t> payload) {
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = PatternAt(i);
}

// Whether all but the two stamps is FillPattern's.
inline bool HoldsPattern(std::span<const uint8_t> payload) {
  for (size_t i = sizeof(uint64_t); i + sizeof(uint64_t) < payload.size(); ++i) {
    if (payload[i] != PatternAt(i)) return false;
  }
  return true;
}

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_PAYLOAD_H_
