#include "farcall/codegen/locate.h"

#include <catch2/catch.hpp>

namespace farcall::codegen {
namespace {

constexpr std::string_view kSchema = R"(include "table.fbs";
// table NotThis { x: int; }
/* rpc_service NorThis {
   table x; */ attribute "table Nor { this";
namespace a . b;

table
  First (force_align: 8) { x: int = 1 (id: 0, key);
    table: string (deprecated);
    // gone: int;
    y: [First]; }
enum Colour : byte (bit_flags) { Red,
  Green = 2, Blue }
union Any { First,
  Other: First }
rpc_service First {
  First(First): First (streaming: "a; b {");
  Second(First):
    First;  Third(First): First; }
namespace;
table table { z: int; }
root_type table;
table Last { w: string; }
{ "w": "table Json { j" }
)";

TEST_CASE("definitions and their members have the lines where their names stand") {
  const Lines lines(kSchema);
  CHECK(lines.Find(Kind::kNamespace, "a.b") == 5);
  CHECK(lines.Find(Kind::kType, "a.b.First") == 8);
  CHECK(lines.Find(Kind::kType, "a.b.First", "x") == 8);
  CHECK(lines.Find(Kind::kType, "a.b.First", "table") == 9);
  CHECK(lines.Find(Kind::kType, "a.b.First", "y") == 11);
  CHECK(lines.Find(Kind::kType, "a.b.Colour") == 12);
  CHECK(lines.Find(Kind::kType, "a.b.Colour", "Green") == 13);
  CHECK(lines.Find(Kind::kType, "a.b.Any", "Other") == 15);
  CHECK(lines.Find(Kind::kService, "a.b.First") == 16);
  CHECK(lines.Find(Kind::kService, "a.b.First", "First") == 17);
  CHECK(lines.Find(Kind::kService, "a.b.First", "Second") == 18);
  CHECK(lines.Find(Kind::kService, "a.b.First", "Third") == 19);
  CHECK(lines.Find(Kind::kType, "table") == 21);
  CHECK(lines.Find(Kind::kType, "Last", "w") == 23);
}

TEST_CASE("what is not defined has line 1") {
  const Lines lines(kSchema);
  for (const char* name : {"NotThis", "a.b.NorThis", "a.b.Nor", "Json", "First"}) {
    CHECK(lines.Find(Kind::kType, name) == 1);
    CHECK(lines.Find(Kind::kService, name) == 1);
  }
}

TEST_CASE("text that breaks off is read to its end") {
  for (size_t length = 0; length < kSchema.size(); ++length) {
    CHECK(Lines(kSchema.substr(0, length)).Find(Kind::kType, "none") == 1);
  }
  CHECK(Lines("\xEF\xBB\xBFtable T { x: int; }").Find(Kind::kType, "T") == 1);
  CHECK(Lines("\xEF\xBB\xBF\n\ntable T { x: int; }").Find(Kind::kType, "T") == 3);
}

}  // namespace
}  // namespace farcall::codegen
