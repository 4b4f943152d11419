#include "farcall/codegen/names.h"

#include <catch2/catch.hpp>
#include <string>

#include "farcall/codegen/assign.h"

namespace farcall::codegen {
namespace {

TEST_CASE("a name that C++ can have stays as it is") {
  for (const char* name : {"Say", "say", "x", "_", "final", "override", "std", "New", "_lower"}) {
    CHECK(Mangle(name, {}) == name);
  }
}

TEST_CASE("keywords, macros, the compiler's own and taken names get underscores") {
  for (const char* name :
       {"delete", "class", "co_await", "requires", "char8_t", "consteval", "and", "import", "errno",
        "EOF", "NULL", "ECHO", "assert", "major", "linux", "__LINE__", "_Bool"}) {
    CHECK(Mangle(name, {}) == std::string(name) + "_");
  }
  CHECK(Mangle("Say", {"Say"}) == "Say_");
  CHECK(Mangle("Say", {"Say", "Say_"}) == "Say__");
  CHECK(Mangle("delete", {"delete_"}) == "delete__");
}

TEST_CASE("a type is spelled as flatc spells it") {
  CHECK(FlatcName("Request") == "Request");
  CHECK(FlatcName("class") == "class_");
  CHECK(FlatcName("consteval") == "consteval");  // flatc does not know this one
  CHECK(Rooted({"a", "b"}, "C") == "::a::b::C");
  CHECK(Rooted({}, "C") == "::C");
  CHECK(Dotted({"a", "b"}, "C") == "a.b.C");
}

// The names of the methods, as "name/new/async", in order.
std::vector<std::string> MethodNames(const std::vector<std::string>& plain) {
  std::vector<Method> methods(plain.size());
  AssignMethodNames(plain, methods);
  std::vector<std::string> names;
  for (const Method& method : methods) {
    names.push_back(method.name + "/" + method.new_name + "/" + method.async_name);
  }
  return names;
}

TEST_CASE("methods keep the names of the schema, and what is derived gives way") {
  CHECK(MethodNames({"Say"}) == std::vector<std::string>{"Say/NewSay/AsyncSay"});
  CHECK(MethodNames({"Say", "NewSay", "AsyncSay"}) ==
        std::vector<std::string>{"Say/NewSay_/AsyncSay_", "NewSay/NewNewSay/AsyncNewSay",
                                 "AsyncSay/NewAsyncSay/AsyncAsyncSay"});
  CHECK(MethodNames({"delete", "delete_"}) ==
        std::vector<std::string>{"delete__/Newdelete/Asyncdelete",
                                 "delete_/Newdelete_/Asyncdelete_"});
  CHECK(MethodNames({"Client", "channel_"}) ==
        std::vector<std::string>{"Client_/NewClient/AsyncClient",
                                 "channel__/Newchannel_/Asyncchannel_"});
}

TEST_CASE("the order of the schema does not change a name") {
  std::vector<std::string> one = MethodNames({"Say", "Say_", "NewSay", "delete_", "delete"});
  std::vector<std::string> other = MethodNames({"delete", "delete_", "NewSay", "Say_", "Say"});
  std::reverse(other.begin(), other.end());
  CHECK(one == other);
}

}  // namespace
}  // namespace farcall::codegen
