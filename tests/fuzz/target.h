// What every fuzz target is made of: it has seeds, and does something with any bytes at all. A file
// of this folder that defines the two functions is a whole target; libfuzzer.cc or replay.cc has
// the rest.

#ifndef FARCALL_TESTS_FUZZ_TARGET_H_
#define FARCALL_TESTS_FUZZ_TARGET_H_

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

// Ends the program, which is how a fuzzer is told, unless `condition` holds.
#define FUZZ_CHECK(condition) \
  ((condition) ? void() : ::farcall::fuzz::Fail(#condition, __FILE__, __LINE__))

namespace farcall::fuzz {

[[noreturn]] void Fail(const char* condition, const char* file, int line);

// Hostile bytes, read from the front. Never fails: what is not there reads as 0 and "".
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  template <std::unsigned_integral T>
  T Take() {
    T value = 0;
    const std::string_view bytes = Bytes(sizeof value);
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  uint8_t Byte() { return Take<uint8_t>(); }
  std::string_view Bytes(size_t size) {
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  // A length of one byte, and that many bytes.
  std::string_view Short() { return Bytes(Byte()); }

 private:
  std::string_view rest_;
};

// Writes what Input reads: seeds are scripts.
class Script {
 public:
  template <std::unsigned_integral T>
  Script& Put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Script& Byte(size_t value) { return Put(static_cast<uint8_t>(value)); }
  Script& Bytes(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }
  Script& Short(std::string_view bytes) { return Byte(bytes.size()).Bytes(bytes.substr(0, 255)); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// ---- what a target defines ----

// Inputs made of the library's own encodings, from which a fuzzer finds further ones.
std::vector<std::string> Seeds();

// Does what the target is for with `input`, and checks what must hold.
void Run(Input input);

}  // namespace farcall::fuzz

#endif  // FARCALL_TESTS_FUZZ_TARGET_H_
