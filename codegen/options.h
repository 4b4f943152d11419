// The command line of farcall-gen.

#ifndef FARCALL_CODEGEN_OPTIONS_H_
#define FARCALL_CODEGEN_OPTIONS_H_

#include <string>
#include <vector>

namespace farcall::codegen {

struct Options {
  bool help = false;
  bool version = false;
  std::vector<std::string> include_dirs;
  std::string output_dir = ".";
  std::string depfile;  // empty: none
  std::vector<std::string> inputs;
};

// What --help prints.
extern const char kUsage[];

// Reads the arguments after the program's name. Returns what is wrong with them, in words; empty if
// nothing is.
std::string ParseOptions(const std::vector<std::string>& arguments, Options& options);

}  // namespace farcall::codegen

#endif  // FARCALL_CODEGEN_OPTIONS_H_
