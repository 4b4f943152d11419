// Messages as hostile as a script wants them: from good ones to noise.

#ifndef FARCALL_TESTS_FUZZ_FRAMES_H_
#define FARCALL_TESTS_FUZZ_FRAMES_H_

#include <cstdint>
#include <memory>
#include <span>

#include "farcall/rpc/frame.h"
#include "farcall/tests/fuzz/body.h"
#include "farcall/tests/fuzz/target.h"

namespace farcall::fuzz {

// A call's id is one of `calls`, or any small number where there are none.
Message TakeMessage(Input& script, const std::shared_ptr<BufferPool>& pool,
                    std::span<const uint64_t> calls);

// ---- what TakeMessage reads ----

// A token is told with kFeatureOffers only.
Script& PutHello(Script& script, uint8_t calls_in_flight, uint8_t features = 0,
                 std::string_view token = {});
// `method` counts those of Subject; `text` is in the body.
Script& PutRequest(Script& script, uint8_t call, uint8_t method, std::string_view text);
Script& PutReply(Script& script, uint8_t which, uint8_t status, uint8_t flags);
// CANCEL, PING, PONG, GOAWAY.
Script& PutControl(Script& script, FrameType type, uint8_t call, uint8_t status = 0);
Script& PutOffers(Script& script, const std::vector<std::string>& names);
Script& PutProbe(Script& script, uint8_t call, std::string_view body);
Script& PutNoise(Script& script, std::string_view head);

}  // namespace farcall::fuzz

#endif  // FARCALL_TESTS_FUZZ_FRAMES_H_
