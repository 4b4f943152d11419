// Words that C++ or its headers keep for themselves.

#ifndef FARCALL_CODEGEN_WORDS_H_
#define FARCALL_CODEGEN_WORDS_H_

#include <string_view>

namespace farcall::codegen {

// A keyword that flatc knows. It escapes one where it declares a type, not where it refers to one.
bool IsEscapedByFlatc(std::string_view name);

// A keyword of C++20 that flatc does not know.
bool IsLaterKeyword(std::string_view name);

// A macro of the headers that generated code includes: nothing can be named so.
bool IsMacro(std::string_view name);

// A macro with some compilers, options or C libraries, a good name with others.
bool IsSometimesMacro(std::string_view name);

}  // namespace farcall::codegen

#endif  // FARCALL_CODEGEN_WORDS_H_
