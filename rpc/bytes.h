// Little-endian integers in byte strings, and the two string_views of this house.

#ifndef FARCALL_RPC_BYTES_H_
#define FARCALL_RPC_BYTES_H_

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "absl/strings/string_view.h"

namespace farcall {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian; a big-endian machine needs byte swaps here");

template <std::unsigned_integral T>
T LoadLittle(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <std::unsigned_integral T>
void StoreLittle(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

inline std::string_view AsView(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Debian's Abseil has a string_view of its own.
inline absl::string_view Absl(std::string_view view) { return {view.data(), view.size()}; }
inline std::string_view Std(absl::string_view view) { return {view.data(), view.size()}; }

}  // namespace farcall

#endif  // FARCALL_RPC_BYTES_H_
