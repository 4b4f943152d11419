// How names of a schema are spelled in C++: the one place that escapes them. README.md states the
// rule for people.

#ifndef FARCALL_CODEGEN_NAMES_H_
#define FARCALL_CODEGEN_NAMES_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::codegen {

// Names that a scope already declares.
using Names = std::set<std::string, std::less<>>;

// The C++ spelling of a name that the generated code declares: `name` and as many '_' as it takes
// to be no keyword, no macro, none of `taken`, and not the compiler's own (__LINE__, _Bool).
std::string Mangle(std::string_view name, const Names& taken);

// The C++ spelling that flatc gives to a table, struct or enum: '_' after a keyword that flatc
// knows.
std::string FlatcName(std::string_view name);

// Why flatc's header cannot declare a type, field or value `name`: words that follow "table 'x' ";
// empty if it can. For a component of a namespace, which flatc never escapes, the second.
std::string WhyNotAName(std::string_view name);
std::string WhyNotANamespace(std::string_view component);

// "::a::b::Name"; "::Name" in the global namespace.
std::string Rooted(const std::vector<std::string>& name_space, std::string_view name);

// "a.b.Name", as a schema spells it.
std::string Dotted(const std::vector<std::string>& name_space, std::string_view name);

}  // namespace farcall::codegen

#endif  // FARCALL_CODEGEN_NAMES_H_
