// How long a test runs and waits, for who wants it longer than usual.

#ifndef FARCALL_TESTS_FROM_ENVIRONMENT_H_
#define FARCALL_TESTS_FROM_ENVIRONMENT_H_

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace farcall::testing {

// The number in the environment variable `name`; `usual` when there is none. Ends the program when
// it is not a number: a run of other things than were meant proves nothing.
inline uint64_t FromEnvironment(const char* name, uint64_t usual) {
  const char* text = std::getenv(name);
  if (text == nullptr) return usual;
  const char* const end = text + std::strlen(text);
  uint64_t value = 0;
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end) {
    std::fprintf(stderr, "%s is \"%s\": not a number of 64 bits\n", name, text);
    std::exit(2);
  }
  return value;
}

// How long a test waits for what must come: `usual`, or FARCALL_TEST_PATIENCE times that where
// everything is slow (the guest).
template <typename T>
T Patience(T usual) {
  return usual * static_cast<int>(FromEnvironment("FARCALL_TEST_PATIENCE", 1));
}

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_FROM_ENVIRONMENT_H_
