// Whole runs: which files appear, and when none does.

#include "farcall/codegen/generate.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "farcall/codegen/options.h"
#include "farcall/tests/codegen/folder.h"

namespace farcall::codegen {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGood = "namespace n;\ntable A { x: int; }\nrpc_service S { M(A): A; }\n";
constexpr const char* kBad = "table A { x: int }\n";

// Runs the generator as the command line says. The errors if it failed, "ok" if it did not.
std::string Run(const std::vector<std::string>& arguments) {
  Options options;
  REQUIRE(ParseOptions(arguments, options).empty());
  std::ostringstream errors;
  const bool good = Generate(options, errors);
  CHECK(good == errors.str().empty());
  return good ? "ok" : errors.str();
}

// The names of the files in a folder, joined by spaces.
std::string Files(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::string joined;
  for (const std::string& name : names) {
    joined += (joined.empty() ? "" : " ") + name;
  }
  return joined;
}

TEST_CASE("two files a schema, in a folder that is made") {
  const Folder folder;
  CHECK(Run({"-o", folder / "new/out", folder.Write("a.fbs", kGood),
             folder.Write("b c.fbs", "namespace m;\n" + std::string(kGood))}) == "ok");
  CHECK(Files(folder / "new/out") == "a.rpc.cc a.rpc.h b c.rpc.cc b c.rpc.h");
}

TEST_CASE("one bad schema: no output, not even an old one") {
  const Folder folder;
  const std::string a = folder.Write("a.fbs", kGood);
  const std::string b = folder.Write("b.fbs", kGood);
  fs::create_directory(folder / "out");
  const std::vector<std::string> run = {"-o", folder / "out", "--depfile", folder / "out/d", a, b};
  CHECK(Run(run) == "ok");
  CHECK(Files(folder / "out") == "a.rpc.cc a.rpc.h b.rpc.cc b.rpc.h d");
  folder.Write("out/other", "stays");
  folder.Write("b.fbs", kBad);
  CHECK(Run(run) == b + ":1: expecting: ; instead got: }\n");
  CHECK(Files(folder / "out") == "other");
}

TEST_CASE("a place that cannot be written: no output") {
  const Folder folder;
  const std::string a = folder.Write("a.fbs", kGood);
  folder.Write("file", "");
  CHECK(Run({"-o", folder / "file/out", a})
            .starts_with("farcall-gen: " + (folder / "file/out") + ": cannot make this folder: "));
  fs::create_directories(folder / "out/a.rpc.cc");  // in the way of the second file
  CHECK(Run({"-o", folder / "out", a}) ==
        "farcall-gen: " + (folder / "out/a.rpc.cc") + ": cannot put in place: Is a directory\n");
  CHECK(Files(folder / "out") == "a.rpc.cc");
  if (::geteuid() != 0) {
    fs::permissions(folder / "out", fs::perms::owner_read | fs::perms::owner_exec);
    CHECK(Run({"-o", folder / "out", a}) ==
          "farcall-gen: " + (folder / "out/a.rpc.h") + ": cannot write: Permission denied\n");
  }
}

TEST_CASE("an output that would replace a schema or another output: nothing is touched") {
  const Folder folder;
  folder.Write("used.fbs", "table Used { x: int; }");
  const std::string a = folder.Write("a.fbs", "include \"used.fbs\"; " + std::string(kGood));
  fs::create_directory_symlink(folder / "", folder / "link");
  const std::string schema = Read(a);
  for (const char* depfile : {"a.fbs", "out/../a.fbs", "link/a.fbs", "used.fbs"}) {
    CHECK(Run({"-o", folder / "out", "--depfile", folder / depfile, a}) ==
          "farcall-gen: " + (folder / depfile) +
              ": would replace a schema that is read: nothing is written\n");
  }
  CHECK(Run({"-o", folder / "out", "--depfile", folder / "out/a.rpc.h", a}) ==
        "farcall-gen: " + (folder / "out/a.rpc.h") +
            ": would replace another output file: nothing is written\n");
  const std::string bad = folder.Write("bad.fbs", kBad);
  CHECK(Run({"-o", folder / "out", "--depfile", bad, bad}).find("would replace") !=
        std::string::npos);
  CHECK(Files(folder / "") == "a.fbs bad.fbs link used.fbs");
  CHECK(Read(a) == schema);
  CHECK(Read(bad) == kBad);
}

TEST_CASE("the depfile names every schema that was read") {
  const Folder folder;
  folder.Write("sub dir/deep.fbs", "table Deep { x: int; }");
  folder.Write("inc/used.fbs", "include \"../sub dir/deep.fbs\";");
  folder.Write("inc/unused.fbs", "");
  const std::string a = folder.Write("a.fbs", "include \"used.fbs\";");
  const std::string b = folder.Write("b.fbs", kGood);
  CHECK(Run({"-I", folder / "none", "-I" + (folder / "inc"), "-o", folder / "out", "--depfile",
             folder / "deps", a, b}) == "ok");
  const std::string out = folder / "out/";
  CHECK(Read(folder / "deps") == out + "a.rpc.h " + out + "a.rpc.cc: \\\n  " + a + " \\\n  " +
                                     (folder / "inc/../sub\\ dir/deep.fbs") + " \\\n  " +
                                     (folder / "inc/used.fbs") + "\n" + out + "b.rpc.h " + out +
                                     "b.rpc.cc: \\\n  " + b + "\n");
}

TEST_CASE("output depends on nothing but the schemas") {
  const Folder folder;
  folder.Write("one/inc/y.fbs", "namespace y; table Y { x: int; }");
  folder.Write("one/x.fbs", "include \"y.fbs\"; rpc_service S { M(y.Y): y.Y; }");
  fs::create_directories(folder / "deeper/down");
  fs::copy(folder / "one", folder / "deeper/down/two", fs::copy_options::recursive);
  const fs::path before = fs::current_path();
  CHECK(Run({"-I", folder / "one/inc", "-o", folder / "out1", folder / "one/x.fbs"}) == "ok");
  fs::current_path(folder / "deeper/down/two");
  CHECK(Run({"-I", "inc", "x.fbs"}) == "ok");
  fs::current_path(folder / "deeper");
  CHECK(Run({"-I", "down/../down/two/inc", "-o", "../out2", "down/two/x.fbs"}) == "ok");
  fs::current_path(before);
  for (const char* name : {"x.rpc.h", "x.rpc.cc"}) {
    const std::string first = Read(folder / "out1/" + name);
    CHECK(!first.empty());
    CHECK(Read(folder / "deeper/down/two/" + name) == first);
    CHECK(Read(folder / "out2/" + name) == first);
  }
}

TEST_CASE("the command line") {
  const auto problem = [](const std::vector<std::string>& arguments) {
    Options options;
    return ParseOptions(arguments, options);
  };
  CHECK(problem({"--help"}).empty());
  CHECK(problem({"--version"}).empty());
  CHECK(problem({"--", "-x.fbs"}).empty());
  CHECK(problem({}) == "no schema given");
  CHECK(problem({"a.txt"}) == "a.txt: not a .fbs file");
  CHECK(problem({"dir/.fbs"}) == "dir/.fbs: not a .fbs file");
  CHECK(problem({"a.fbs", "-o"}) == "-o needs a value");
  CHECK(problem({"a.fbs", "-I", ""}) == "-I needs a value");
  CHECK(problem({"a.fbs", "--depfile"}) == "--depfile needs a value");
  CHECK(problem({"a.fbs", "--what"}) == "unknown option --what");
  CHECK(problem({"a/x.fbs", "b/x.fbs"}) ==
        "b/x.fbs: writes the same files as a/x.fbs: run them apart");
  CHECK(problem({"a\"b.fbs"}) ==
        "a\"b.fbs: a file name with quotes, backslashes, dollars or line ends cannot be included");
}

}  // namespace
}  // namespace farcall::codegen
