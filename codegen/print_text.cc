// Fill and PrintComment: how text gets into the output.

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "farcall/codegen/print.h"

namespace farcall::codegen {
namespace {

// Length of the UTF-8 sequence at the front of `text`, which is not empty; 0 if it is malformed.
size_t SequenceLength(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0x80                      ? 1
                        : byte(0) >= 0xC2 && byte(0) < 0xE0 ? 2
                        : byte(0) >= 0xE0 && byte(0) < 0xF0 ? 3
                        : byte(0) >= 0xF0 && byte(0) < 0xF5 ? 4
                                                            : 0;
  if (length == 0 || length > text.size()) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  return length;
}

// Characters that change the order in which text is shown (U+202A to E, U+2066 to 9): compilers
// warn of them, with reason.
bool Reorders(std::string_view sequence) {
  return (sequence >= "\xE2\x80\xAA" && sequence <= "\xE2\x80\xAE") ||
         (sequence >= "\xE2\x81\xA6" && sequence <= "\xE2\x81\xA9");
}

std::string Clean(std::string_view line) {
  std::string clean;
  while (!line.empty()) {
    const size_t length = SequenceLength(line);
    const std::string_view sequence = line.substr(0, std::max<size_t>(length, 1));
    line.remove_prefix(sequence.size());
    if (sequence == "\r") {
      continue;
    }
    const bool control = sequence.size() == 1 && sequence != "\t" &&
                         (static_cast<unsigned char>(sequence[0]) < 0x20 || sequence[0] == 0x7F);
    clean += length == 0 || control || Reorders(sequence) ? "?" : sequence;
  }
  while (!clean.empty() && (clean.back() == ' ' || clean.back() == '\t')) {
    clean.pop_back();
  }
  constexpr std::string_view kTrigraph = "?\?/";  // for a backslash
  for (size_t at = clean.find(kTrigraph); at != std::string::npos; at = clean.find(kTrigraph)) {
    clean.insert(at + 1, 1, ' ');  // g++ 12 warns wrongly about the other insert
  }
  if (clean.ends_with('\\')) {
    clean += '.';  // a backslash at the end would take the next line into the comment
  }
  return clean;
}

}  // namespace

std::string Fill(std::string_view text, const Variables& variables) {
  std::string filled;
  while (!text.empty()) {
    const size_t begin = std::min(text.find('$'), text.size());
    filled += text.substr(0, begin);
    text.remove_prefix(begin);
    if (text.empty()) {
      break;
    }
    const size_t end = text.find('$', 1);
    assert(end != std::string_view::npos);
    const std::string_view name = text.substr(1, end - 1);
    const auto found =
        std::find_if(variables.begin(), variables.end(),
                     [name](const auto& variable) { return variable.first == name; });
    assert(found != variables.end());
    filled += found->second;
    text.remove_prefix(end + 1);
  }
  return filled;
}

std::string PrintComment(const std::vector<std::string>& lines, std::string_view indent) {
  std::string printed;
  for (const std::string& line : lines) {
    printed += indent;
    printed += "///";
    printed += Clean(line);
    printed += '\n';
  }
  return printed;
}

}  // namespace farcall::codegen
