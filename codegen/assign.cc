#include "farcall/codegen/assign.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string_view>

namespace farcall::codegen {
namespace {

std::string Canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(path, error);
  return error ? path : canonical.string();
}

// Mangles names that are declared side by side, and adds them to `taken`. Those that can stay as
// they are come first, whatever the order: `delete_` keeps its name, and `delete` becomes
// `delete__`.
std::map<std::string, std::string> MangleAll(const Names& names, Names& taken) {
  std::map<std::string, std::string> mangled;
  for (const bool escaped : {false, true}) {
    for (const std::string& name : names) {
      std::string spelling = Mangle(name, taken);
      if (mangled.contains(name) || (!escaped && spelling != name)) {
        continue;
      }
      taken.insert(spelling);
      mangled.emplace(name, std::move(spelling));
    }
  }
  return mangled;
}

}  // namespace

std::vector<std::string> FlatcDeclares(const flatbuffers::StructDef& type) {
  const std::string name = FlatcName(type.name);
  if (type.fixed) {
    return {name};
  }
  return {name, name + "Builder", name + "T", "Create" + name, "Create" + name + "Direct",
          // For a root type; which tables of other files are root types is not known here.
          "Get" + name, "GetSizePrefixed" + name, "GetMutable" + name, name + "Identifier",
          name + "BufferHasIdentifier", "SizePrefixed" + name + "BufferHasIdentifier",
          name + "Extension", "Verify" + name + "Buffer", "VerifySizePrefixed" + name + "Buffer",
          "Finish" + name + "Buffer", "FinishSizePrefixed" + name + "Buffer", "UnPack" + name,
          "UnPackSizePrefixed" + name};
}

std::vector<std::string> FlatcDeclares(const flatbuffers::EnumDef& type) {
  const std::string name = FlatcName(type.name);
  return {name,
          "EnumValues" + name,
          "EnumNames" + name,
          "EnumName" + name,
          name + "Traits",
          name + "UnionTraits",
          name + "Union",
          "Verify" + name,
          "Verify" + name + "Vector"};
}

Names ClassDeclares(const flatbuffers::ServiceDef& service) {
  Names names = {"Client", "Bind", "info"};
  for (const flatbuffers::RPCCall* call : service.calls.vec) {
    names.insert(call->name + "Method");
  }
  return names;
}

const std::set<std::string>& ServiceNames::Closure(const std::string& file) {
  const auto [found, created] = closures_.try_emplace(file);
  if (created) {
    for (const std::string& included : parser_.GetIncludedFilesRecursive(file)) {
      found->second.insert(Canonical(included));
    }
  }
  return found->second;
}

void ServiceNames::Declare(const std::vector<std::string>& name_space,
                           const std::vector<std::string>& names, Scopes& scopes) {
  std::string scope;
  for (const std::string& component : name_space) {
    scopes[scope].insert(component);
    scope += component + ".";
  }
  scopes[scope].insert(names.begin(), names.end());
}

ServiceNames::Scopes ServiceNames::Declared(const std::set<std::string>& closure) {
  Scopes scopes;
  // Of the global namespace, what every program has.
  scopes[""] = {"std", "absl", "boost", "flatbuffers", "farcall", "farcall_generated", "main"};
  for (const flatbuffers::StructDef* type : parser_.structs_.vec) {
    if (closure.contains(Canonical(type->file))) {
      Declare(type->defined_namespace->components, FlatcDeclares(*type), scopes);
    }
  }
  for (const flatbuffers::EnumDef* type : parser_.enums_.vec) {
    if (closure.contains(Canonical(type->file))) {
      Declare(type->defined_namespace->components, FlatcDeclares(*type), scopes);
    }
  }
  for (const flatbuffers::ServiceDef* service : parser_.services_.vec) {
    const std::set<std::string> own = Closure(service->file);
    if (!closure.contains(Canonical(service->file))) {
      continue;
    }
    std::vector<std::string> names;
    if (own != closure) {  // an included file's, and that does not include this one in turn
      const Pair pair = Of(*service);
      names = {pair.type, pair.concept_name};
    }
    Declare(service->defined_namespace->components, names, scopes);
  }
  return scopes;
}

// Names the services of a file; files that include one another are named as if they were one.
void ServiceNames::Assign(const std::set<std::string>& closure) {
  Scopes scopes = Declared(closure);
  std::map<std::string, const flatbuffers::ServiceDef*> services;  // by full name, of these files
  for (const flatbuffers::ServiceDef* service : parser_.services_.vec) {
    if (Closure(service->file) == closure) {
      services.emplace(Dotted(service->defined_namespace->components, service->name), service);
    }
  }
  // Classes before concepts, and those that can keep their names before others: a service named
  // EchoService keeps its name beside a service Echo, whose concept gives way.
  for (const bool escaped : {false, true}) {
    for (const auto& [full_name, service] : services) {
      Names& scope = scopes[Dotted(service->defined_namespace->components, "")];
      Names taken = scope;
      taken.merge(ClassDeclares(*service));
      const std::string name = Mangle(service->name, taken);
      if (names_[service].type.empty() && (escaped || name == service->name)) {
        scope.insert(name);
        names_[service].type = name;
      }
    }
  }
  for (const auto& [full_name, service] : services) {
    Names& scope = scopes[Dotted(service->defined_namespace->components, "")];
    const std::string name = Mangle(service->name + "Service", scope);
    scope.insert(name);
    names_[service].concept_name = name;
  }
}

ServiceNames::Pair ServiceNames::Of(const flatbuffers::ServiceDef& service) {
  if (!names_.contains(&service)) {
    Assign(Closure(service.file));
  }
  return names_[&service];
}

void AssignMethodNames(const std::vector<std::string>& plain, std::vector<Method>& methods) {
  Names taken = {"Client", "channel_"};
  Names names;
  Names news;
  Names asyncs;
  for (const std::string& name : plain) {
    names.insert(name);
    news.insert("New" + name);
    asyncs.insert("Async" + name);
  }
  const auto own = MangleAll(names, taken);
  const auto builders = MangleAll(news, taken);
  const auto asynchronous = MangleAll(asyncs, taken);
  for (size_t i = 0; i < methods.size(); ++i) {
    methods[i].name = own.at(plain[i]);
    methods[i].new_name = builders.at("New" + plain[i]);
    methods[i].async_name = asynchronous.at("Async" + plain[i]);
    methods[i].descriptor = plain[i] + "Method";
  }
}

}  // namespace farcall::codegen
