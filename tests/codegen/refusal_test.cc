// Every way to be refused, with the exact words.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "farcall/codegen/schema.h"
#include "farcall/tests/codegen/folder.h"

namespace farcall::codegen {
namespace {

// The problems of a schema x.fbs, without the folder that it was in; joined by newlines.
std::string Problems(const Folder& folder, const std::string& text,
                     uint64_t (*method_id)(std::string_view) = &MethodId) {
  const Schema schema = ReadSchema(folder.Write("x.fbs", text), {folder / "inc"}, method_id);
  std::string problems;
  for (std::string line : schema.problems) {
    for (size_t at = line.find(folder / ""); at != std::string::npos; at = line.find(folder / "")) {
      line.erase(at, (folder / "").size());
    }
    problems += (problems.empty() ? "" : "\n") + line;
  }
  return problems;
}

std::string Problems(const std::string& text) { return Problems(Folder(), text); }

// A service with this one method, in a namespace.
std::string WithMethod(const std::string& method) {
  return "namespace n;\ntable A { x: int; }\nrpc_service S {\n  Fine(A): A;\n  " + method + "\n}\n";
}

TEST_CASE("a good schema has no problem") {
  CHECK(Problems(WithMethod("M(A): A;")).empty());
  CHECK(Problems("attribute \"nothing_else\";").empty());
  CHECK(
      Problems("\xEF\xBB\xBF" + WithMethod("M(A): A (streaming: \"bidi\", idempotent);")).empty());
}

TEST_CASE("what the parser refuses is put as file:line: reason") {
  CHECK(Problems("") == "x.fbs:1: input file is empty");
  CHECK(Problems("table A {\n  x int;\n}") == "x.fbs:2: expecting: : instead got: int");
  CHECK(Problems("namespace n;\n\ntable A { b: B; }\n\ntable C { x: int; }\n") ==
        "x.fbs:3: type referenced but not defined (check namespace): B");
  CHECK(Problems(WithMethod("M(A): Nowhere;")) ==
        "x.fbs:5: type referenced but not defined (check namespace): Nowhere");
  CHECK(Problems(WithMethod("M(A)->A;")) ==
        "x.fbs:5: invalid number: - (a method is Method(Request): Response;)");
  CHECK(Problems("table A {\n  x: int = -;\n}") == "x.fbs:2: invalid number: -");
  CHECK(Problems("table A { x: int; }\nrpc_service S {\n}\n") ==
        "x.fbs:3: expecting: identifier instead got: }");
  CHECK(Problems(WithMethod("M(A): A (unheard);")) ==
        "x.fbs:5: user define attributes must be declared before use: unheard");
  CHECK(Problems("table A {\n  x \"a\nb\";\n}") == "x.fbs:2: illegal character in string constant");
  CHECK(Problems("include \"a\\nb\\u001b[31m\";") ==
        "x.fbs:1: unable to load include file: a?b?[31m");
  CHECK(Problems(WithMethod("Fine(A): A;")) == "x.fbs:5: rpc already exists: Fine");
  CHECK(Problems("struct P { x: int; }\nrpc_service S {\n  M(P): P;\n}\n") ==
        "x.fbs:3: rpc request and response types must be tables");
  CHECK(Problems("include \"none.fbs\";\n") == "x.fbs:1: unable to load include file: none.fbs");
  CHECK(Problems("\n\ntable A { x: int; } /* no end") == "x.fbs:3: end of file in comment");
}

TEST_CASE("a problem of an included file is put there") {
  const Folder folder;
  folder.Write("inc/y.fbs", "table Y {\n  x: Z\n");
  CHECK(Problems(folder, "include \"y.fbs\";\n") ==
        "inc/y.fbs:3: expecting: ; instead got: end of file");
  folder.Write("inc/y.fbs", "\n\ntable Y { errno: int; }\n");
  CHECK(Problems(folder, "include \"y.fbs\";\n") ==
        "inc/y.fbs:3: field 'errno' is a macro of the C library, which nothing can escape: "
        "rename it");
  folder.Write("inc/y.fbs",
               "table Y { x: int; }\nrpc_service T {\n\n  M(Y): Y (streaming: \"x\");\n}");
  CHECK(Problems(folder, "include \"y.fbs\";\n") ==
        "inc/y.fbs:4: method 'M' has the unknown streaming value 'x': it is \"none\", \"client\", "
        "\"server\" or \"bidi\"");
}

TEST_CASE("a file that cannot be read is named, and why") {
  const Folder folder;
  const auto problem = [](const std::string& path) {
    const Schema schema = ReadSchema(path, {});
    return schema.problems.size() == 1 ? schema.problems[0] : "not one problem";
  };
  CHECK(problem(folder / "none.fbs") == (folder / "none.fbs") + ": No such file or directory");
  std::filesystem::create_directory(folder / "dir.fbs");
  CHECK(problem(folder / "dir.fbs") == (folder / "dir.fbs") + ": not a regular file");
  CHECK(problem("/dev/null") == "/dev/null: not a regular file");
  CHECK(problem(folder.Write("nul.fbs", std::string("table A\n{ x: int; }\n\0 rest", 25))) ==
        (folder / "nul.fbs") + ":3: a NUL byte: a schema is UTF-8 text");
  folder.Write("inc.fbs", "include \"dir.fbs\";");
  CHECK(problem(folder / "inc.fbs") ==
        (folder / "inc.fbs") + ":1: unable to load include file: dir.fbs");
}

TEST_CASE("hostile nesting is refused and does not end the process") {
  const std::string deep(100000, '[');
  CHECK(Problems("table A { x: " + deep + "int; }") == "x.fbs:1: maximum parsing depth 65 reached");
  CHECK(
      Problems("table A { x: int; }\nroot_type A;\n{ x: " + deep + " }").starts_with("x.fbs:3: "));
  CHECK(Problems("table A { a: A; }\nroot_type A;\n" +
                 [] {
                   std::string json;
                   for (int i = 0; i < 100000; ++i) {
                     json += "{ a: ";
                   }
                   return json;
                 }())
            .starts_with("x.fbs:3: maximum parsing depth"));
}

TEST_CASE("attributes of methods are understood or refused") {
  CHECK(Problems(WithMethod("M(A): A (streaming: \"a\\u0000\\nb\");"))
            .starts_with("x.fbs:5: method 'M' has the unknown streaming value 'a??b': it is "));
  CHECK(Problems(WithMethod("M(A): A (streaming: \"both\");")) ==
        "x.fbs:5: method 'M' has the unknown streaming value 'both': it is \"none\", \"client\", "
        "\"server\" or \"bidi\"");
  CHECK(Problems(WithMethod("M(A): A (streaming);")) ==
        "x.fbs:5: method 'M' has the unknown streaming value '0': it is \"none\", \"client\", "
        "\"server\" or \"bidi\"");
  CHECK(
      Problems(WithMethod("M(A): A (streaming: \"Server\");")).starts_with("x.fbs:5: method 'M'"));
  CHECK(Problems(WithMethod("M(A): A (idempotent: \"no\");")) ==
        "x.fbs:5: method 'M' gives a value to idempotent, which takes none");
}

TEST_CASE("a struct that is defined too late for the parser to see is no message") {
  CHECK(Problems("rpc_service S {\n  M(P): P;\n}\nstruct P { x: int; }\n") ==
        "x.fbs:2: method 'M' has the struct 'P' for a message: messages are tables");
}

TEST_CASE("names that nothing can escape are refused") {
  CHECK(Problems("namespace a.class;\nrpc_service S { M(T): T; }\ntable T { x: int; }\n") ==
        "x.fbs:1: namespace component 'class' is a C++ keyword, and flatc does not escape "
        "namespaces: rename it");
  CHECK(Problems("table T { x: int; }\n\nnamespace a.errno;\nrpc_service S { M(T): T; }\n") ==
        "x.fbs:3: namespace component 'errno' is a macro of the C library, which nothing can "
        "escape: rename it");
  CHECK(Problems("table NULL { x: int; }\n") ==
        "x.fbs:1: table 'NULL' is a macro of the C library, which nothing can escape: rename it");
  CHECK(Problems("\nstruct consteval { x: int; }\n") ==
        "x.fbs:2: struct 'consteval' is a C++20 keyword that flatc does not escape: rename it");
  CHECK(Problems("enum EOF : byte { A,\n NULL }\nunion assert { T }\ntable T { x: int; }\n") ==
        "x.fbs:1: enum 'EOF' is a macro of the C library, which nothing can escape: rename it\n"
        "x.fbs:2: value 'NULL' is a macro of the C library, which nothing can escape: rename it\n"
        "x.fbs:3: union 'assert' is a macro of the C library, which nothing can escape: rename it");
  CHECK(Problems("table T {\n  char8_t: int;\n}\n") ==
        "x.fbs:2: field 'char8_t' is a C++20 keyword that flatc does not escape: rename it");
}

TEST_CASE("a keyword that flatc escapes only half is refused where it is used") {
  CHECK(Problems("table class { x: int; }\nrpc_service S { M(class): class; }\n").empty());
  CHECK(Problems("table class { x: int; }\ntable T {\n  a: class;\n  b: [class];\n}\n") ==
        "x.fbs:3: field 'a' is of type 'class', a C++ keyword that flatc does not escape there: "
        "rename the type\n"
        "x.fbs:4: field 'b' is of type 'class', a C++ keyword that flatc does not escape there: "
        "rename the type");
  CHECK(Problems("enum class : byte { A }\ntable T {\n  a: class;\n}\n") ==
        "x.fbs:3: field 'a' is of type 'class', a C++ keyword that flatc does not escape there: "
        "rename the type");
  CHECK(Problems("table class { x: int; }\nunion U {\n  class\n}\n") ==
        "x.fbs:3: union 'U' has the member 'class', a C++ keyword that flatc does not escape "
        "there: rename the type");
}

TEST_CASE("a namespace that hides std or flatbuffers from flatc's code is refused") {
  CHECK(Problems("namespace a.std;\ntable T { x: int; }\n") ==
        "x.fbs:1: namespace component 'std' hides ::std from flatc's code: rename it");
  CHECK(Problems("namespace a.flatbuffers.b;\ntable T { x: int; }\n") ==
        "x.fbs:1: namespace component 'flatbuffers' hides ::flatbuffers from flatc's code: "
        "rename it");
  CHECK(Problems(
            "namespace n;\ntable T { x: int; }\nnamespace a.std;\nrpc_service S { M(n.T): n.T; }")
            .empty());
}

TEST_CASE("method ids must differ, and 0 is none") {
  const Folder folder;
  const std::string two = WithMethod("M(A): A;");
  CHECK(Problems(folder, two, [](std::string_view) -> uint64_t { return 7; }) ==
        "x.fbs:5: method 'M' has the same id on the wire as 'n.S/Fine': rename one of them");
  CHECK(Problems(folder, two, [](std::string_view name) -> uint64_t { return name.size() - 5; }) ==
        "x.fbs:5: method 'M' has the id 0 on the wire, which stands for no method: rename it");
  folder.Write("inc/y.fbs", "namespace y; table Y { x: int; } rpc_service T { Other(Y): Y; }");
  CHECK(Problems(folder, "include \"y.fbs\";\n" + WithMethod("M(A): A;"),
                 [](std::string_view name) -> uint64_t { return name == "n.S/Fine" ? 1 : 2; }) ==
        "x.fbs:6: method 'M' has the same id on the wire as 'y.T/Other': rename one of them");
}

TEST_CASE("a type must leave an included service its names") {
  const Folder folder;
  folder.Write("inc/y.fbs", "namespace n; table Y { x: int; } rpc_service Echo { M(Y): Y; }");
  CHECK(
      Problems(folder, "include \"y.fbs\";\nnamespace n;\n\ntable EchoService { x: int; }\n") ==
      "x.fbs:4: table 'EchoService' makes flatc declare 'EchoService', which is generated for the "
      "included service 'n.Echo': rename one of them");
  CHECK(Problems(folder,
                 "include \"y.fbs\";\nnamespace n;\nenum Ech : byte { A }\nunion Echo { Y }") ==
        "x.fbs:4: union 'Echo' makes flatc declare 'Echo', which is generated for the included "
        "service 'n.Echo': rename one of them");
  CHECK(Problems(folder, "include \"y.fbs\";\nnamespace m;\ntable Echo { x: int; }\n").empty());
}

}  // namespace
}  // namespace farcall::codegen
