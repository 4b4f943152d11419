#include "farcall/codegen/parse.h"

#include <flatbuffers/util.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace farcall::codegen {
namespace {

flatbuffers::IDLOptions ParserOptions() {
  flatbuffers::IDLOptions options;
  options.no_warnings = true;                                // flatc prints them
  options.lang_to_generate = flatbuffers::IDLOptions::kCpp;  // accept what `flatc --cpp` accepts
  options.binary_schema_builtins = true;  // `streaming` and `idempotent` belong into the schema
  options.project_root.clear();           // and the paths of this machine do not
  return options;
}

// Cuts "<digits>" off the front of `text`; false if it has none.
bool CutNumber(std::string_view& text, std::string& number) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  number = text.substr(0, digits);
  text.remove_prefix(digits);
  return digits > 0;
}

bool Cut(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

// A type that is used and never defined is reported at the end of the last file, with the place of
// its use at the end of the message: "… Foo, originally at: a/b.fbs:12".
std::string AtItsUse(const std::string& message) {
  constexpr std::string_view kAt = ", originally at: ";
  const size_t at = message.rfind(kAt);
  const size_t reason = message.find("type referenced but not defined");
  if (at == std::string::npos || reason == std::string::npos) {
    return message;
  }
  return message.substr(at + kAt.size()) + ": " + message.substr(reason, at - reason);
}

// What the parser does not say: an arrow, as other languages have it, is an "invalid number: -".
std::string HintAt(const std::string& file, const std::string& line_number) {
  std::ifstream lines(file);
  std::string line;
  for (size_t left = std::stoul(line_number); left > 0; --left) std::getline(lines, line);
  return line.find("->") == std::string::npos ? "" : " (a method is Method(Request): Response;)";
}

// Turns the parser's "/absolute/echo.fbs:3: 12: error: reason" into "echo.fbs:3: reason".
std::string Problem(const flatbuffers::Parser& parser) {
  std::string error = Masked(parser.error_);
  for (const auto& [file, includes] : parser.files_included_per_file_) {
    std::string_view text = error;
    std::string line;
    std::string column;
    if (Cut(text, flatbuffers::AbsolutePath(file)) && Cut(text, ":") && CutNumber(text, line) &&
        Cut(text, ": ") && CutNumber(text, column) && Cut(text, ": error: ")) {
      std::string problem = file;
      problem.append(":").append(line).append(": ").append(text).append(HintAt(file, line));
      return AtItsUse(problem);
    }
  }
  return error;
}

}  // namespace

std::string Masked(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return ('\0' <= c && c < ' ') || c == '\x7F'; }, '?');
  return text;
}

bool ReadFile(const std::string& path, std::string& text, std::string& reason) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) {
    reason = error.message();
    return false;
  }
  if (!std::filesystem::is_regular_file(status)) {
    reason = "not a regular file";
    return false;
  }
  std::ifstream file(path, std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad()) {
    reason = std::strerror(errno);
    return false;
  }
  return true;
}

std::unique_ptr<flatbuffers::Parser> Parse(const std::string& path,
                                           const std::vector<std::string>& include_dirs,
                                           Schema& schema) {
  auto parser = std::make_unique<flatbuffers::Parser>(ParserOptions());
  std::string text;
  std::string reason;
  if (!ReadFile(path, text, reason)) {
    schema.problems.push_back(path + ": " + reason);
    return parser;
  }
  if (const size_t nul = text.find('\0');
      nul != std::string::npos) {  // the parser would stop there
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(nul), '\n');
    schema.problems.push_back(path + ":" + std::to_string(line) +
                              ": a NUL byte: a schema is UTF-8 text");
    return parser;
  }
  std::vector<const char*> dirs;
  dirs.reserve(include_dirs.size() + 1);
  for (const std::string& dir : include_dirs) {
    dirs.push_back(dir.c_str());
  }
  dirs.push_back(nullptr);
  try {
    if (!parser->Parse(text.c_str(), dirs.data(), path.c_str())) {
      schema.problems.push_back(Problem(*parser));
    }
  } catch (const std::exception& failure) {  // an include that cannot be held in memory, for one
    schema.problems.push_back(path + ":1: the parser failed: " + Masked(failure.what()));
  }
  return parser;
}

}  // namespace farcall::codegen
