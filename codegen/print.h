// Prints the C++ of a schema. A pure function of the schema: no path, time or machine gets in.

#ifndef FARCALL_CODEGEN_PRINT_H_
#define FARCALL_CODEGEN_PRINT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "farcall/codegen/schema.h"

namespace farcall::codegen {

// <stem>.rpc.h: for each service its class and its concept.
std::string PrintHeader(const Schema& schema);

// <stem>.rpc.cc: the service descriptions, with the binary schema, once, for all of them.
std::string PrintSource(const Schema& schema);

// A template with its $variables$ filled in. Values are not looked at again.
using Variables = std::vector<std::pair<std::string_view, std::string_view>>;
std::string Fill(std::string_view text, const Variables& variables);

// Lines of "///" for a doc comment, each behind `indent`. Whatever the schema says there, the
// comment ends with its line and reads in the order in which it is written.
std::string PrintComment(const std::vector<std::string>& lines, std::string_view indent);

}  // namespace farcall::codegen

#endif  // FARCALL_CODEGEN_PRINT_H_
