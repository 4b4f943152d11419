#include "farcall/tests/fuzz/target.h"

#include <cstdio>
#include <cstdlib>

namespace farcall::fuzz {

void Fail(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
  std::abort();
}

}  // namespace farcall::fuzz
