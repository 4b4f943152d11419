// Lines of definitions in a schema's text: the library's parser keeps none.

#ifndef FARCALL_CODEGEN_LOCATE_H_
#define FARCALL_CODEGEN_LOCATE_H_

#include <map>
#include <string>
#include <string_view>

namespace farcall::codegen {

enum class Kind { kNamespace, kType, kService };

// Where a schema that the parser has accepted defines what. Comments and strings are skipped.
class Lines {
 public:
  explicit Lines(std::string_view text);

  // The first line, from 1, that defines `name` ("a.b.Name"; for a namespace "a.b"), or that of its
  // `member`: a field, value or method. 1 if the text does not define it.
  int Find(Kind kind, std::string_view name, std::string_view member = "") const;

 private:
  std::map<std::string, int, std::less<>> lines_;  // by Key()
};

}  // namespace farcall::codegen

#endif  // FARCALL_CODEGEN_LOCATE_H_
