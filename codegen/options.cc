#include "farcall/codegen/options.h"

#include <cstddef>
#include <map>

#include "farcall/codegen/schema.h"

namespace farcall::codegen {

const char kUsage[] =
    R"(usage: farcall-gen [-I DIR]... [-o DIR] [--depfile FILE] SCHEMA.fbs...

Writes NAME.rpc.h and NAME.rpc.cc for each schema NAME.fbs: clients, service bindings and the
binary schema of its services. The messages are flatc's business: NAME.rpc.h includes
NAME_generated.h, as `flatc --cpp --gen-object-api --cpp-std c++17 NAME.fbs` prints it.

  -I DIR            look for included schemas in DIR, after the including file's own folder
  -o DIR            write into DIR, which is made if need be (default: the current folder)
  --depfile FILE    write a make rule that names every schema that was read
  --help            print this and end
  --version         print the version and end

A schema that cannot be generated is reported as FILE:LINE: REASON; then the exit status is 1 and
none of the output files is left. No output may take the place of a schema or of another output.
)";

std::string ParseOptions(const std::vector<std::string>& arguments, Options& options) {
  bool only_inputs = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (only_inputs || argument.empty() || argument[0] != '-') {
      options.inputs.push_back(argument);
    } else if (argument == "--") {
      only_inputs = true;
    } else if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else if (argument == "--version") {
      options.version = true;
    } else if (argument.starts_with("-I") && argument.size() > 2) {
      options.include_dirs.push_back(argument.substr(2));
    } else if (argument == "-I" || argument == "-o" || argument == "--depfile") {
      if (++i == arguments.size() || arguments[i].empty()) {
        return argument + " needs a value";
      }
      if (argument == "-I") {
        options.include_dirs.push_back(arguments[i]);
      } else {
        (argument == "-o" ? options.output_dir : options.depfile) = arguments[i];
      }
    } else {
      return "unknown option " + argument;
    }
  }
  if (options.help || options.version) {
    return "";
  }
  if (options.inputs.empty()) {
    return "no schema given";
  }
  std::map<std::string, std::string> stems;
  for (const std::string& input : options.inputs) {
    const std::string stem = Stem(input);
    if (!input.ends_with(".fbs") || stem.empty()) {
      return input + ": not a .fbs file";
    }
    if (stem.find_first_of("\"\\\n\r$") != std::string::npos) {
      return input +
             ": a file name with quotes, backslashes, dollars or line ends cannot be included";
    }
    const auto [other, is_new] = stems.emplace(stem, input);
    if (!is_new) {
      return input + ": writes the same files as " + other->second + ": run them apart";
    }
  }
  return "";
}

}  // namespace farcall::codegen
