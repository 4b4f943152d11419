// Bodies of subject.fbs: a good one, and one whose memory ends where its bytes do.

#ifndef FARCALL_TESTS_FUZZ_BODY_H_
#define FARCALL_TESTS_FUZZ_BODY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "farcall/rpc/buffer.h"
#include "farcall/rpc/builder.h"
#include "subject.rpc.h"

namespace farcall::fuzz {

// With something in every field, `depth` deep.
EverythingT Sample(uint64_t number, int depth);

// A small one.
Buffer MakeBody(const std::shared_ptr<BufferPool>& pool, std::string_view text, uint64_t number);

// A Buffer of exactly these bytes: a read beyond them is seen by AddressSanitizer.
Buffer TightBuffer(std::string_view bytes);

// Reads every field of a body that was verified, and returns it packed anew.
std::string Repack(const Everything& everything);

}  // namespace farcall::fuzz

#endif  // FARCALL_TESTS_FUZZ_BODY_H_
