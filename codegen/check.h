// What the parser accepts and C++ cannot have.

#ifndef FARCALL_CODEGEN_CHECK_H_
#define FARCALL_CODEGEN_CHECK_H_

#include <flatbuffers/idl.h>

#include <map>
#include <string>
#include <string_view>

#include "farcall/codegen/assign.h"
#include "farcall/codegen/locate.h"
#include "farcall/codegen/schema.h"

namespace farcall::codegen {

// Collects problems with the place of the definition that has them.
class Problems {
 public:
  explicit Problems(Schema& schema) : schema_(schema) {}

  // Adds "file:line: reason", for a type, a service, or a `member` of one.
  void Add(Kind kind, const ::flatbuffers::Definition& definition, std::string_view member,
           const std::string& reason);
  // For the namespace of `definition`, once.
  void AddNamespace(const ::flatbuffers::Definition& definition, const std::string& reason);

 private:
  void Put(const std::string& file, Kind kind, std::string_view name, std::string_view member,
           const std::string& reason);

  Schema& schema_;
  std::map<std::string, Lines> lines_;  // by file
};

// Types, fields and namespaces that flatc would print as they are and C++ does not take.
void CheckTypes(const ::flatbuffers::Parser& parser, Problems& problems);

// Types of `file` that take a name which an included file generates for a service.
void CheckIncludedServices(const ::flatbuffers::Parser& parser, const std::string& file,
                           ServiceNames& names, Problems& problems);

}  // namespace farcall::codegen

#endif  // FARCALL_CODEGEN_CHECK_H_
