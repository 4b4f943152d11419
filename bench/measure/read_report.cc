#include "farcall/bench/measure/read_report.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "farcall/bench/measure/record_fields.h"

namespace farcall::bench {
namespace {

// Takes JSON apart from its front. After the first thing that is not as it should be it takes
// nothing more.
class Reader {
 public:
  explicit Reader(std::string_view json) : json_(json) {}

  bool good() const { return wanted_.empty(); }
  absl::Status status() const {
    if (good()) return absl::OkStatus();
    return absl::InvalidArgumentError("not a report of the demo: at byte " + std::to_string(at_) +
                                      " there should be " + wanted_);
  }

  bool Is(char mark) {
    SkipSpace();
    if (!good() || at_ == json_.size() || json_[at_] != mark) return false;
    ++at_;
    return true;
  }
  void Want(char mark) {
    if (!Is(mark)) Miss(std::string("'") + mark + "'");
  }
  void WantEnd() {
    SkipSpace();
    if (at_ != json_.size()) Miss("the end");
  }

  std::string Text() {
    Want('"');
    return RestOfText();
  }
  // Behind its first quote.
  std::string RestOfText() {
    std::string text;
    while (good() && at_ < json_.size() && json_[at_] != '"') {
      text += json_[at_] == '\\' ? Escaped() : json_[at_++];
    }
    Want('"');
    return text;
  }
  double Number() {
    SkipSpace();
    double number = 0;
    const auto [end, error] =
        std::from_chars(json_.data() + at_, json_.data() + json_.size(), number);
    if (!good() || error != std::errc()) {
      Miss("a number");
      return 0;
    }
    at_ = static_cast<size_t>(end - json_.data());
    return number;
  }
  // Calls `member(name)`, which takes the value, for each of an object.
  template <typename Member>
  void Object(Member&& member) {
    Want('{');
    if (Is('}')) return;
    do {
      const std::string name = Text();
      Want(':');
      if (good()) member(name);
    } while (Is(','));
    Want('}');
  }

  void Miss(std::string wanted) {
    if (good()) wanted_ = std::move(wanted);
  }

 private:
  void SkipSpace() {
    while (at_ < json_.size() && (json_[at_] == ' ' || json_[at_] == '\n')) ++at_;
  }
  // What ToJson escapes: quotes, backslashes and, as four digits, control characters.
  char Escaped() {
    ++at_;
    if (at_ < json_.size() && json_[at_] != 'u') return json_[at_++];
    unsigned code = 0;
    const std::string_view digits = json_.substr(std::min(at_ + 1, json_.size()), 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || end != digits.data() + 4 || code > 0x7f) {
      Miss("an escaped control character");
      return ' ';
    }
    at_ += 5;
    return static_cast<char>(code);
  }

  const std::string_view json_;
  size_t at_ = 0;
  std::string wanted_;  // what was missed
};

Facts ReadFacts(Reader& reader) {
  Facts facts;
  reader.Object([&](const std::string& name) {
    if (reader.Is('"')) {
      facts.emplace_back(name, reader.RestOfText());
    } else {
      facts.emplace_back(name, reader.Number());
    }
  });
  return facts;
}

void Read(Reader& reader, std::string& text) { text = reader.Text(); }
void Read(Reader& reader, double& number) { number = reader.Number(); }
void Read(Reader& reader, std::optional<double>& number) { number = reader.Number(); }
void Read(Reader& reader, uint64_t& number) {
  const double value = reader.Number();
  if (value < 0 || value > 1e18) return reader.Miss("a count");
  number = static_cast<uint64_t>(value);
}

void Read(Reader& reader, std::optional<uint64_t>& number) { Read(reader, number.emplace()); }

Record ReadRecord(Reader& reader) {
  Record record;
  reader.Object([&](const std::string& name) {
    bool known = false;
    ForEachField(record, [&](const char* field, auto& value, auto...) {
      if (name != field) return;
      known = true;
      Read(reader, value);
    });
    if (!known) reader.Miss("a field of a record, not '" + name + "'");
  });
  if (record.samples == 0 && !record.estimate) reader.Miss("samples in the record before it");
  return record;
}

}  // namespace

void AddReport(const Report& from, Report& to) {
  const auto add = [](const Facts& facts, Facts& all) {
    for (const auto& fact : facts) {
      const bool known = std::any_of(all.begin(), all.end(),
                                     [&](const auto& other) { return other.first == fact.first; });
      if (!known) all.push_back(fact);
    }
  };
  add(from.machine, to.machine);
  add(from.versions, to.versions);
  add(from.settings, to.settings);
  to.records.insert(to.records.end(), from.records.begin(), from.records.end());
}

absl::StatusOr<Report> ReadReport(std::string_view json) {
  Reader reader(json);
  Report report;
  reader.Object([&](const std::string& name) {
    if (name == "machine") {
      report.machine = ReadFacts(reader);
    } else if (name == "versions") {
      report.versions = ReadFacts(reader);
    } else if (name == "settings") {
      report.settings = ReadFacts(reader);
    } else if (name == "records") {
      reader.Want('[');
      if (reader.Is(']')) return;
      do {
        report.records.push_back(ReadRecord(reader));
      } while (reader.Is(','));
      reader.Want(']');
    } else {
      reader.Miss("machine, versions, settings or records, not '" + name + "'");
    }
  });
  reader.WantEnd();
  if (!reader.good()) return reader.status();
  return report;
}

}  // namespace farcall::bench
