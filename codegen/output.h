// Files that appear whole and together, or not at all.

#ifndef FARCALL_CODEGEN_OUTPUT_H_
#define FARCALL_CODEGEN_OUTPUT_H_

#include <string>
#include <string_view>
#include <vector>

namespace farcall::codegen {

struct OutputFile {
  std::string path;
  std::string text;
};

// Writes every file beside its place and then moves all of them there. Returns an empty string, or
// what went wrong; then none of the files is left, nor one that was there before.
std::string WriteAll(const std::vector<OutputFile>& files);

// Removes what an earlier run has left at these places.
void RemoveAll(const std::vector<OutputFile>& files);

// "out1 out2: in1 in2", a rule for make and ninja, with what is special to them escaped.
std::string PrintRule(const std::vector<std::string>& outputs,
                      const std::vector<std::string>& inputs);

}  // namespace farcall::codegen

#endif  // FARCALL_CODEGEN_OUTPUT_H_
