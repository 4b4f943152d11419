// The FlatBuffers library's parser, run on a file, with its complaints put as "file:line: reason".

#ifndef FARCALL_CODEGEN_PARSE_H_
#define FARCALL_CODEGEN_PARSE_H_

#include <flatbuffers/idl.h>

#include <memory>
#include <string>
#include <vector>

#include "farcall/codegen/schema.h"

namespace farcall::codegen {

// What a reason quotes of a schema, with its line ends and terminal controls replaced by '?'.
std::string Masked(std::string text);

// Reads a regular file whole; false, with a reason such as "No such file or directory", if it
// cannot.
bool ReadFile(const std::string& path, std::string& text, std::string& reason);

// Parses `path` the way that flatc does for C++. Fills the schema's problems and warnings; the
// parser is of use only when there are no problems.
std::unique_ptr<::flatbuffers::Parser> Parse(const std::string& path,
                                             const std::vector<std::string>& include_dirs,
                                             Schema& schema);

}  // namespace farcall::codegen

#endif  // FARCALL_CODEGEN_PARSE_H_
