#include "farcall/codegen/generate.h"

#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <system_error>
#include <vector>

#include "farcall/codegen/output.h"
#include "farcall/codegen/print.h"
#include "farcall/codegen/schema.h"

namespace farcall::codegen {
namespace {

std::string Canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(path, error);
  return error ? path : canonical.string();
}

// Why these files must not be written: one would replace a schema that was read, or another one.
// Empty when none would.
std::string Overlap(const std::vector<OutputFile>& files, const std::vector<std::string>& read) {
  std::map<std::string, std::string> taken;  // path -> what it is
  for (const std::string& schema : read) taken.emplace(Canonical(schema), "a schema that is read");
  for (const OutputFile& file : files) {
    const auto [other, is_new] = taken.emplace(Canonical(file.path), "another output file");
    if (!is_new) return file.path + ": would replace " + other->second + ": nothing is written";
  }
  return "";
}

}  // namespace

bool Generate(const Options& options, std::ostream& errors) {
  std::vector<OutputFile> files;
  std::vector<std::string> read;
  std::string rules;
  bool good = true;
  for (const std::string& input : options.inputs) {
    const Schema schema = ReadSchema(input, options.include_dirs);
    for (const std::string& line : schema.problems) {
      errors << line << '\n';
      good = false;
    }
    const std::string out = options.output_dir + "/" + schema.stem;
    files.push_back({out + ".rpc.h", PrintHeader(schema)});
    files.push_back({out + ".rpc.cc", PrintSource(schema)});
    read.insert(read.end(), schema.files.begin(), schema.files.end());
    rules += PrintRule({out + ".rpc.h", out + ".rpc.cc"}, schema.files);
  }
  if (!options.depfile.empty()) {
    files.push_back({options.depfile, rules});
  }
  read.insert(read.end(), options.inputs.begin(), options.inputs.end());  // unreadable ones, too
  if (const std::string overlap = Overlap(files, read); !overlap.empty()) {
    errors << "farcall-gen: " << overlap << '\n';
    return false;
  }
  if (!good) {
    RemoveAll(files);
    return false;
  }
  const std::string problem = WriteAll(files);
  if (!problem.empty()) {
    errors << "farcall-gen: " << problem << '\n';
  }
  return problem.empty();
}

}  // namespace farcall::codegen
