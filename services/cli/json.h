// A writer of JSON: nothing but the commas, quotes and escapes.

#ifndef FARCALL_SERVICES_CLI_JSON_H_
#define FARCALL_SERVICES_CLI_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace farcall::cli {

// Begin and End pair up; in an object every value has a Key before it. Bytes that are no UTF-8 of
// their own are the caller's business.
class JsonWriter {
 public:
  JsonWriter& Begin(char bracket) {
    Comma();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  JsonWriter& End(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  JsonWriter& Key(std::string_view name) {
    String(name);
    text_ += ": ";
    first_ = true;
    return *this;
  }
  JsonWriter& String(std::string_view value);
  JsonWriter& Number(uint64_t value) { return Raw(std::to_string(value)); }
  JsonWriter& Number(double value) { return Raw(std::to_string(value)); }
  JsonWriter& Bool(bool value) { return Raw(value ? "true" : "false"); }
  JsonWriter& Null() { return Raw("null"); }

  const std::string& text() const { return text_; }

 private:
  JsonWriter& Raw(std::string_view value) {
    Comma();
    text_ += value;
    return *this;
  }
  void Comma() {
    if (!first_) text_ += ", ";
    first_ = false;
  }

  std::string text_;
  bool first_ = true;
};

}  // namespace farcall::cli

#endif  // FARCALL_SERVICES_CLI_JSON_H_
