#include "farcall/codegen/locate.h"

#include <cctype>
#include <cstddef>

namespace farcall::codegen {
namespace {

struct Token {
  std::string_view
      text;  // an identifier, a string with its quotes, one other byte; empty at the end
  int line = 1;
};

bool IsIdentifierByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) {
      text_.remove_prefix(3);
    }
  }

  Token Next() {
    SkipSpace();
    const size_t begin = at_;
    const int line = line_;
    if (at_ == text_.size()) {
      return {{}, line};
    }
    const char first = text_[at_];
    Advance();
    if (first == '"' || first == '\'') {
      while (at_ < text_.size() && text_[at_] != first) {
        Advance(text_[at_] == '\\' ? 2 : 1);
      }
      Advance();
    } else if (IsIdentifierByte(first)) {
      while (at_ < text_.size() && IsIdentifierByte(text_[at_])) {
        Advance();
      }
    }
    return {text_.substr(begin, at_ - begin), line};
  }

 private:
  void Advance(size_t bytes = 1) {
    for (; bytes > 0 && at_ < text_.size(); --bytes) {
      line_ += text_[at_++] == '\n' ? 1 : 0;
    }
  }

  void SkipTo(std::string_view end) {
    const size_t found = text_.find(end, at_);
    Advance(found == std::string_view::npos ? text_.size() : found - at_ + end.size());
  }

  void SkipSpace() {
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with("//")) {
        SkipTo("\n");
      } else if (text_.substr(at_).starts_with("/*")) {
        Advance(2);
        SkipTo("*/");
      } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        Advance();
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

std::string Key(Kind kind, std::string_view name, std::string_view member) {
  constexpr std::string_view kKinds[] = {"namespace ", "type ", "service "};
  std::string key(kKinds[static_cast<size_t>(kind)]);
  key += name;
  key += ' ';
  return key += member;
}

// Walks the definitions of one schema. A statement outside of braces begins with a word; `table`,
// `rpc_service` and their like are followed by a name, which tells them from a statement such as
// "root_type table;".
class Walk {
 public:
  Walk(std::string_view text, std::map<std::string, int, std::less<>>& lines)
      : scanner_(text), lines_(lines) {}

  void Run() {
    for (Token token = scanner_.Next(); !token.text.empty(); token = scanner_.Next()) {
      if (token.text == "namespace") {
        Namespace();
      } else if (token.text == "rpc_service") {
        Definition(Kind::kService);
      } else if (token.text == "table" || token.text == "struct" || token.text == "enum" ||
                 token.text == "union") {
        Definition(Kind::kType);
      } else {
        SkipStatement(token);
      }
    }
  }

 private:
  void Add(Kind kind, std::string_view name, std::string_view member, int line) {
    lines_.emplace(Key(kind, name, member), line);
  }

  void Namespace() {
    std::string name;
    Token token = scanner_.Next();
    const int line = token.line;
    for (; !token.text.empty() && token.text != ";"; token = scanner_.Next()) {
      name += token.text;
    }
    prefix_ = name.empty() ? "" : name + ".";
    Add(Kind::kNamespace, name, "", line);
  }

  // Up to ';', or over an object of JSON data.
  void SkipStatement(Token token) {
    int depth = 0;
    for (; !token.text.empty(); token = scanner_.Next()) {
      if (token.text == "{") {
        ++depth;
      } else if (token.text == "}") {
        --depth;
      }
      if (depth == 0 && (token.text == ";" || token.text == "}")) {
        return;
      }
    }
  }

  void Definition(Kind kind) {
    const Token named = scanner_.Next();
    const std::string name = prefix_ + std::string(named.text);
    Add(kind, name, "", named.line);
    Token token = scanner_.Next();
    while (!token.text.empty() && token.text != "{") {  // attributes, an enum's type
      token = scanner_.Next();
    }
    bool expect_member = true;
    int parentheses = 0;
    for (token = scanner_.Next(); !token.text.empty() && token.text != "}";
         token = scanner_.Next()) {
      if (expect_member) {
        Add(kind, name, token.text, token.line);
      }
      parentheses += token.text == "(" ? 1 : token.text == ")" ? -1 : 0;
      expect_member = parentheses == 0 && (token.text == ";" || token.text == ",");
    }
  }

  Scanner scanner_;
  std::map<std::string, int, std::less<>>& lines_;
  std::string prefix_;  // the current namespace, "a.b." or empty
};

}  // namespace

Lines::Lines(std::string_view text) { Walk(text, lines_).Run(); }

int Lines::Find(Kind kind, std::string_view name, std::string_view member) const {
  const auto found = lines_.find(Key(kind, name, member));
  return found == lines_.end() ? 1 : found->second;
}

}  // namespace farcall::codegen
