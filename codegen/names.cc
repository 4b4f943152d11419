#include "farcall/codegen/names.h"

#include "farcall/codegen/words.h"

namespace farcall::codegen {
namespace {

bool IsKeyword(std::string_view name) { return IsEscapedByFlatc(name) || IsLaterKeyword(name); }

// An underscore and then an underscore or a capital: a macro or keyword of the compiler, perhaps.
bool IsReserved(std::string_view name) {
  return name.size() >= 2 && name[0] == '_' &&
         (name[1] == '_' || ('A' <= name[1] && name[1] <= 'Z'));
}

std::string Join(const std::vector<std::string>& name_space, std::string_view separator) {
  std::string joined;
  for (const std::string& component : name_space) {
    joined += component;
    joined += separator;
  }
  return joined;
}

}  // namespace

std::string Mangle(std::string_view name, const Names& taken) {
  std::string mangled(name);
  if (IsReserved(name)) {
    mangled += '_';
  }
  while (IsKeyword(mangled) || IsMacro(mangled) || IsSometimesMacro(mangled) ||
         taken.contains(mangled)) {
    mangled += '_';
  }
  return mangled;
}

std::string FlatcName(std::string_view name) {
  return std::string(name) + (IsEscapedByFlatc(name) ? "_" : "");
}

std::string WhyNotAName(std::string_view name) {
  if (IsLaterKeyword(name)) {
    return "is a C++20 keyword that flatc does not escape: rename it";
  }
  if (IsMacro(name)) {
    return "is a macro of the C library, which nothing can escape: rename it";
  }
  return "";
}

std::string WhyNotANamespace(std::string_view component) {
  if (IsKeyword(component)) {
    return "is a C++ keyword, and flatc does not escape namespaces: rename it";
  }
  return WhyNotAName(component);
}

std::string Rooted(const std::vector<std::string>& name_space, std::string_view name) {
  return "::" + Join(name_space, "::") + std::string(name);
}

std::string Dotted(const std::vector<std::string>& name_space, std::string_view name) {
  return Join(name_space, ".") + std::string(name);
}

}  // namespace farcall::codegen
