#include "farcall/codegen/generate.h"

#include <ostream>
#include <string>
#include <vector>

#include "farcall/codegen/output.h"
#include "farcall/codegen/print.h"
#include "farcall/codegen/schema.h"

namespace farcall::codegen {

bool Generate(const Options& options, std::ostream& errors) {
  std::vector<OutputFile> files;
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
    rules += PrintRule({out + ".rpc.h", out + ".rpc.cc"}, schema.files);
  }
  if (!options.depfile.empty()) {
    files.push_back({options.depfile, rules});
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
