#include "farcall/codegen/check.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "farcall/codegen/names.h"
#include "farcall/codegen/parse.h"
#include "farcall/codegen/words.h"

namespace farcall::codegen {
namespace {

std::string Named(std::string_view what, const flatbuffers::Definition& definition) {
  return std::string(what) + " '" + definition.name + "' ";
}

void CheckNamespace(const flatbuffers::Definition& definition, Problems& problems) {
  for (const std::string& component : definition.defined_namespace->components) {
    if (const std::string reason = WhyNotANamespace(component); !reason.empty()) {
      std::string problem = "namespace component '";
      problem.append(component).append("' ").append(reason);
      problems.AddNamespace(definition, problem);
    }
  }
}

// flatc's own code says std:: and flatbuffers::, and finds an inner namespace of that name first.
void CheckHiddenNamespaces(const flatbuffers::StructDef& type, Problems& problems) {
  const std::vector<std::string>& components = type.defined_namespace->components;
  for (size_t i = 1; i < components.size(); ++i) {
    if (components[i] == "std" || components[i] == "flatbuffers") {
      problems.AddNamespace(type, "namespace component '" + components[i] + "' hides ::" +
                                      components[i] + " from flatc's code: rename it");
    }
  }
}

void CheckFields(const flatbuffers::StructDef& type, Problems& problems) {
  for (const flatbuffers::FieldDef* field : type.fields.vec) {
    if (const std::string reason = WhyNotAName(field->name); !reason.empty()) {
      problems.Add(Kind::kType, type, field->name, Named("field", *field) + reason);
    }
    const flatbuffers::Type& of = field->value.type;
    const flatbuffers::Definition* referred = of.enum_def;
    if (of.struct_def != nullptr) {
      referred = of.struct_def;
    }
    if (referred != nullptr && IsEscapedByFlatc(referred->name)) {
      problems.Add(Kind::kType, type, field->name,
                   Named("field", *field) + "is of type '" + referred->name +
                       "', a C++ keyword that flatc does not escape there: rename the type");
    }
  }
}

void CheckValues(const flatbuffers::EnumDef& type, Problems& problems) {
  for (const flatbuffers::EnumVal* value : type.Vals()) {
    if (const std::string reason = WhyNotAName(value->name); !reason.empty()) {
      problems.Add(Kind::kType, type, value->name, "value '" + value->name + "' " + reason);
    }
    const flatbuffers::StructDef* member = value->union_type.struct_def;
    if (member != nullptr && IsEscapedByFlatc(member->name)) {
      problems.Add(Kind::kType, type, value->name,
                   Named("union", type) + "has the member '" + member->name +
                       "', a C++ keyword that flatc does not escape there: rename the type");
    }
  }
}

}  // namespace

void Problems::Put(const std::string& file, Kind kind, std::string_view name,
                   std::string_view member, const std::string& reason) {
  auto lines = lines_.find(file);
  if (lines == lines_.end()) {
    std::string text;
    std::string unread;
    ReadFile(file, text, unread);  // the parser has read it a moment ago
    lines = lines_.emplace(file, Lines(text)).first;
  }
  const int line = lines->second.Find(kind, name, member);
  std::string problem = file + ":" + std::to_string(line) + ": " + Masked(reason);
  if (std::find(schema_.problems.begin(), schema_.problems.end(), problem) ==
      schema_.problems.end()) {
    schema_.problems.push_back(std::move(problem));
  }
}

void Problems::Add(Kind kind, const flatbuffers::Definition& definition, std::string_view member,
                   const std::string& reason) {
  Put(definition.file, kind, Dotted(definition.defined_namespace->components, definition.name),
      member, reason);
}

void Problems::AddNamespace(const flatbuffers::Definition& definition, const std::string& reason) {
  std::string name = Dotted(definition.defined_namespace->components, "");
  name.pop_back();
  Put(definition.file, Kind::kNamespace, name, "", reason);
}

void CheckTypes(const flatbuffers::Parser& parser, Problems& problems) {
  for (const flatbuffers::StructDef* type : parser.structs_.vec) {
    CheckNamespace(*type, problems);
    if (const std::string reason = WhyNotAName(type->name); !reason.empty()) {
      problems.Add(Kind::kType, *type, "", Named(type->fixed ? "struct" : "table", *type) + reason);
    }
    if (!type->fixed) {
      CheckHiddenNamespaces(*type, problems);
    }
    CheckFields(*type, problems);
  }
  for (const flatbuffers::EnumDef* type : parser.enums_.vec) {
    CheckNamespace(*type, problems);
    if (const std::string reason = WhyNotAName(type->name); !reason.empty()) {
      problems.Add(Kind::kType, *type, "",
                   Named(type->is_union ? "union" : "enum", *type) + reason);
    }
    CheckValues(*type, problems);
  }
  for (const flatbuffers::ServiceDef* service : parser.services_.vec) {
    CheckNamespace(*service, problems);
  }
}

void CheckIncludedServices(const flatbuffers::Parser& parser, const std::string& file,
                           ServiceNames& names, Problems& problems) {
  const std::set<std::string> closure = names.Closure(file);
  std::map<std::string, std::string> taken;  // rooted name -> service that has it
  for (const flatbuffers::ServiceDef* service : parser.services_.vec) {
    if (names.Closure(service->file) == closure) {
      continue;  // of this file, and named with respect to its types
    }
    const std::vector<std::string>& name_space = service->defined_namespace->components;
    const ServiceNames::Pair pair = names.Of(*service);
    taken.emplace(Rooted(name_space, pair.type), Dotted(name_space, service->name));
    taken.emplace(Rooted(name_space, pair.concept_name), Dotted(name_space, service->name));
  }
  const auto check = [&](const auto& type, std::string_view what) {
    if (type.file != file) {
      return;
    }
    for (const std::string& name : FlatcDeclares(type)) {
      const auto found = taken.find(Rooted(type.defined_namespace->components, name));
      if (found != taken.end()) {
        problems.Add(Kind::kType, type, "",
                     Named(what, type) + "makes flatc declare '" + name +
                         "', which is generated for the included service '" + found->second +
                         "': rename one of them");
      }
    }
  };
  for (const flatbuffers::StructDef* type : parser.structs_.vec) {
    check(*type, type->fixed ? "struct" : "table");
  }
  for (const flatbuffers::EnumDef* type : parser.enums_.vec) {
    check(*type, type->is_union ? "union" : "enum");
  }
}

}  // namespace farcall::codegen
