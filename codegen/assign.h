// Decides the C++ names of services and methods, so that they collide with nothing that flatc or
// the generator declares for the schema and the files that it includes.

#ifndef FARCALL_CODEGEN_ASSIGN_H_
#define FARCALL_CODEGEN_ASSIGN_H_

#include <flatbuffers/idl.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "farcall/codegen/names.h"
#include "farcall/codegen/schema.h"

namespace farcall::codegen {

// Everything that flatc may declare in the type's namespace on its behalf, beginning with the type.
std::vector<std::string> FlatcDeclares(const ::flatbuffers::StructDef& type);
std::vector<std::string> FlatcDeclares(const ::flatbuffers::EnumDef& type);

// The names of a service. A file is generated without knowing who will include it, so a service is
// named by what its own file and the files included there declare, and by nothing else.
class ServiceNames {
 public:
  struct Pair {
    std::string type;
    std::string concept_name;
  };

  explicit ServiceNames(const ::flatbuffers::Parser& parser) : parser_(parser) {}

  Pair Of(const ::flatbuffers::ServiceDef& service);

  // The canonical paths of `file` and all that it includes.
  const std::set<std::string>& Closure(const std::string& file);

 private:
  using Scopes = std::map<std::string, Names>;  // "a.b." -> what is declared there

  void Assign(const std::set<std::string>& closure);
  Scopes Declared(const std::set<std::string>& closure);
  void Declare(const std::vector<std::string>& name_space, const std::vector<std::string>& names,
               Scopes& scopes);

  const ::flatbuffers::Parser& parser_;
  std::map<std::string, std::set<std::string>> closures_;  // by path as the parser has it
  std::map<const ::flatbuffers::ServiceDef*, Pair> names_;
};

// Sets the names of all methods of a service; `plain` are the schema's names, in the same order.
void AssignMethodNames(const std::vector<std::string>& plain, std::vector<Method>& methods);

// What the generated class of a service with these methods declares, besides its constructors.
Names ClassDeclares(const ::flatbuffers::ServiceDef& service);

}  // namespace farcall::codegen

#endif  // FARCALL_CODEGEN_ASSIGN_H_
