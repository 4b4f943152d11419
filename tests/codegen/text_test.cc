#include <catch2/catch.hpp>
#include <string>

#include "farcall/codegen/output.h"
#include "farcall/codegen/print.h"

namespace farcall::codegen {
namespace {

TEST_CASE("a template is filled once") {
  CHECK(Fill("a $x$ c $y$$x$", {{"x", "1"}, {"y", "$x$"}}) == "a 1 c $x$1");
  CHECK(Fill("", {}).empty());
}

std::string Comment(const std::string& line) { return PrintComment({line}, "  "); }

TEST_CASE("a comment stays a comment") {
  CHECK(PrintComment({" one", "", " two"}, "") == "/// one\n///\n/// two\n");
  CHECK(Comment(" */ /* \"") == "  /// */ /* \"\n");
  CHECK(Comment(" goes on \\") == "  /// goes on \\.\n");
  CHECK(Comment(" goes on \\  \t") == "  /// goes on \\.\n");
  CHECK(Comment(std::string(" goes on ?") + "?/") == "  /// goes on ? ?/\n");
  CHECK(Comment(" from DOS\r") == "  /// from DOS\n");
  CHECK(Comment(" a\vb\x1b[31mc") == "  /// a?b?[31mc\n");
}

TEST_CASE("a comment is UTF-8 that reads in its order") {
  CHECK(Comment(" gr\xC3\xBC\xC3\x9F dich \xE4\xB8\xAD") ==
        "  /// gr\xC3\xBC\xC3\x9F dich \xE4\xB8\xAD\n");
  CHECK(Comment(" a\xFF\xC3") == "  /// a??\n");
  CHECK(Comment(" a\xE2\x80\xAE"
                "b\xE2\x81\xA6") == "  /// a?b?\n");
}

TEST_CASE("a make rule survives odd names") {
  CHECK(PrintRule({"out/a b.h", "x.cc"}, {"in/a b.fbs", "c#d$e\\f.fbs"}) ==
        "out/a\\ b.h x.cc: \\\n  in/a\\ b.fbs \\\n  c\\#d$$e\\\\f.fbs\n");
}

}  // namespace
}  // namespace farcall::codegen
