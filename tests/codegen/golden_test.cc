// What is printed for the schemas in schemas/, byte for byte, is in golden/. After a change that is
// meant: UPDATE_GOLDEN=1 <this program>, and read the difference.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "farcall/codegen/print.h"
#include "farcall/codegen/schema.h"
#include "farcall/tests/codegen/folder.h"

namespace farcall::codegen {
namespace {

void Compare(const std::string& name, const std::string& printed) {
  const std::string path = std::string(FARCALL_TEST_FOLDER) + "/golden/" + name + ".golden";
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(std::string(FARCALL_TEST_FOLDER) + "/golden");
    std::ofstream(path, std::ios::binary) << printed;
  }
  INFO("golden/" << name << ".golden is another; UPDATE_GOLDEN=1 writes what is printed now");
  const bool same = Read(path) == printed;
  CHECK(same);
}

Schema ReadTestSchema(const std::string& name) {
  Schema schema = ReadSchema(std::string(FARCALL_TEST_FOLDER) + "/schemas/" + name + ".fbs", {});
  REQUIRE(schema.problems.empty());
  return schema;
}

TEST_CASE("generated files are as they were") {
  for (const char* name : {"echo", "global", "messages_only", "types/common"}) {
    const Schema schema = ReadTestSchema(name);
    Compare(schema.stem + ".rpc.h", PrintHeader(schema));
    Compare(schema.stem + ".rpc.cc", PrintSource(schema));
  }
}

// Of schemas that are long because they have many names: the names, which are all that differs.
TEST_CASE("names are as they were") {
  for (const char* name : {"collisions", "keywords"}) {
    const Schema schema = ReadTestSchema(name);
    std::string names;
    for (const Service& service : schema.services) {
      names += service.full_name + " -> " + service.name + ", " + service.concept_name + "\n";
      for (const Method& method : service.methods) {
        names += "  " + method.full_name + " (" + method.request.view + ") -> " + method.name +
                 ", " + method.new_name + ", " + method.async_name + ", " + method.descriptor +
                 "\n";
      }
    }
    Compare(schema.stem + ".names", names);
  }
}

}  // namespace
}  // namespace farcall::codegen
