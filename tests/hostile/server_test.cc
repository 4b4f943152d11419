// Callers that break the rules, against a real server over TCP: each gets what the wire formats
// promise, and the healthy caller beside them notices nothing.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "farcall/tests/hostile/ground.h"
#include "farcall/tests/hostile/peer.h"
#include "farcall/tests/hostile/server_cases.h"

namespace farcall::hostile {
namespace {

using Catch::Matchers::Contains;

// Says what the case says and checks what comes of it.
void Play(const Ground& ground, LogLines& log, const Case& played) {
  CAPTURE(played.name);
  log.Forget();
  Peer peer = Peer::Connect(ground.endpoint);
  peer.Say(played.bytes);
  if (played.expect == Expect::kCut) {
    // What was said before the rule was broken may have been answered.
    peer.HearTheEnd();
    CHECK(log.Saw(played.says));
    return;
  }
  if (played.expect == Expect::kEnded) {
    const std::optional<Heard> bye = peer.Hear(kGoAway);
    REQUIRE(bye);
    CHECK(bye->header.status == static_cast<int>(played.code));
    CHECK_THAT(bye->reason, Contains(played.says));
    CHECK_FALSE(peer.Hear());
    CHECK(log.Saw(played.says));
    return;
  }
  if (played.expect != Expect::kIgnored) {
    std::optional<Heard> reply = peer.Hear(kReply);
    while (reply && reply->header.call != 1) reply = peer.Hear(kReply);
    REQUIRE(reply);
    const bool refused = played.expect == Expect::kRefused;
    CHECK(reply->header.status == (refused ? static_cast<int>(played.code) : 0));
    CHECK(reply->header.flags == (refused ? kNotRun : 0));
    CHECK_THAT(reply->reason, Contains(played.says));
  }
  // The connection is as good as ever.
  REQUIRE(peer.Say(Message(Bytes(Header{.type = kPing, .call = 0x7777}))));
  const std::optional<Heard> pong = peer.Hear(kPong);
  REQUIRE(pong);
  CHECK(pong->header.call == 0x7777);
}

void PlayAll(const std::vector<Case>& cases) {
  LogLines log;
  Ground ground(CaseOptions());
  for (const Case& played : cases) Play(ground, log, played);
  CHECK(ground.healthy->Trouble() == "");
  CHECK(ground.Quiet());
}

TEST_CASE("records: every length and number, bent") { PlayAll(RecordCases()); }
TEST_CASE("transfers: chunks that do not belong") { PlayAll(ChunkCases()); }
TEST_CASE("headers, bent") { PlayAll(HeaderCases()); }
TEST_CASE("fields and metadata, bent") { PlayAll(FieldCases()); }
TEST_CASE("HELLO: versions, limits, floods") { PlayAll(HelloCases()); }
TEST_CASE("requests that break the conversation's rules") { PlayAll(RequestCases()); }

}  // namespace
}  // namespace farcall::hostile
