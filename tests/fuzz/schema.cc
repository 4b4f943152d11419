// The generator's input: any text at all, beside one good schema to include. It is refused in the
// documented words, or printed in the same way each time.

#include "farcall/codegen/schema.h"

#include <flatbuffers/reflection.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "farcall/codegen/locate.h"
#include "farcall/codegen/print.h"
#include "farcall/tests/fuzz/target.h"

namespace farcall::fuzz {
namespace {

namespace fs = std::filesystem;

// A folder of this process, in memory where there is such a place.
class Folder {
 public:
  Folder() {
    const fs::path memory("/dev/shm");
    std::string name =
        ((fs::exists(memory) ? memory : fs::temp_directory_path()) / "farcall_fuzz.XXXXXX")
            .string();
    FUZZ_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    std::ofstream(path_ + "/good.fbs") << "namespace good; table Good { x: int; } rpc_service "
                                          "Kept { Do(Good): Good; }";
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  std::string Write(std::string_view text) const {
    const std::string path = path_ + "/x.fbs";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    return path;
  }

 private:
  std::string path_;
};

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// "file:line: reason", on one line that no terminal minds.
void CheckProblem(const std::string& problem) {
  for (const char c : problem) FUZZ_CHECK(c < 0 || (c >= 0x20 && c != 0x7f));
  const size_t colon = problem.find(".fbs:");
  FUZZ_CHECK(colon != std::string::npos);
  FUZZ_CHECK(problem.find(": ", colon) != std::string::npos);
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = {
      "include \"good.fbs\"; namespace a.b; rpc_service S { M(good.Good): good.Good; }",
      "namespace n; table A { x: int; } rpc_service S { M(A): A (streaming: \"bidi\", idempotent); "
      "}"};
  for (const auto& entry : fs::recursive_directory_iterator(FARCALL_FUZZ_SCHEMAS)) {
    if (entry.path().extension() == ".fbs") seeds.push_back(Read(entry.path()));
  }
  std::sort(seeds.begin(), seeds.end());  // whatever the order of the folder
  return seeds;
}

void Run(Input input) {
  static const Folder folder;
  const std::string path = folder.Write(input.rest());
  const codegen::Schema schema = codegen::ReadSchema(path, {});
  const codegen::Schema again = codegen::ReadSchema(path, {});
  FUZZ_CHECK(schema.problems == again.problems);
  codegen::Lines lines(input.rest());
  FUZZ_CHECK(lines.Find(codegen::Kind::kType, "A", "") >= 1);
  if (!schema.problems.empty()) {
    for (const std::string& problem : schema.problems) CheckProblem(problem);
    return;
  }
  FUZZ_CHECK(codegen::PrintHeader(schema) == codegen::PrintHeader(again));
  FUZZ_CHECK(codegen::PrintSource(schema) == codegen::PrintSource(again));
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(schema.binary.data()),
                                 schema.binary.size());
  FUZZ_CHECK(reflection::VerifySchemaBuffer(verifier));
  const reflection::Schema* reflected = reflection::GetSchema(schema.binary.data());
  for (const codegen::Service& service : schema.services) {
    const reflection::Service* same = reflected->services()->LookupByKey(service.full_name.c_str());
    FUZZ_CHECK(same != nullptr && same->calls()->size() == service.methods.size());
    for (const codegen::Method& method : service.methods) FUZZ_CHECK(method.id != 0);
  }
}

}  // namespace farcall::fuzz
