// A body, verified as a server does it, then read whole. What was accepted packs to a body
// that is accepted and says the same.

#include "farcall/rpc/msg.h"
#include "farcall/tests/fuzz/body.h"
#include "farcall/tests/fuzz/target.h"

namespace farcall::fuzz {

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const int depth : {0, 1, 3}) {
    EverythingT all = Sample(1, depth);
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(Everything::Pack(builder, &all));
    Script script;
    script.Byte(64).Put(uint16_t{1000});
    script.Bytes({reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()});
    seeds.push_back(script.text());
  }
  return seeds;
}

void Run(Input input) {
  MessageLimits limits;
  limits.max_table_depth = input.Byte();
  // A table may be named often: reading it whole takes memory for each time.
  limits.max_tables = input.Take<uint16_t>() % 1024;
  const Buffer body = TightBuffer(input.rest());
  const bool good = VerifyBody<Everything>(body, limits).ok();
  if (!VerifyBody<Everything>(body, {}).ok()) {
    FUZZ_CHECK(!good);  // the limits only ever refuse
    return;
  }
  if (!good) return;

  const std::string once = Repack(*flatbuffers::GetRoot<Everything>(body.data()));
  const Buffer packed = TightBuffer(once);
  FUZZ_CHECK(VerifyBody<Everything>(packed, {}).ok());
  FUZZ_CHECK(Repack(*flatbuffers::GetRoot<Everything>(packed.data())) == once);
}

}  // namespace farcall::fuzz
