#include "farcall/codegen/schema.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>

#include "farcall/codegen/assign.h"
#include "farcall/codegen/check.h"
#include "farcall/codegen/names.h"
#include "farcall/codegen/parse.h"

namespace farcall::codegen {
namespace {

MessageType TypeOf(const flatbuffers::StructDef& table) {
  MessageType type;
  type.view = Rooted(table.defined_namespace->components, FlatcName(table.name));
  type.object = type.view + "T";
  return type;
}

// The value of an attribute; nullptr if the call does not have it. An attribute without a value has
// the parser's default, "0".
const std::string* Attribute(const flatbuffers::RPCCall& call, const char* name) {
  const flatbuffers::Value* value = call.attributes.Lookup(name);
  return value == nullptr ? nullptr : &value->constant;
}

class Reader {
 public:
  Reader(const flatbuffers::Parser& parser, uint64_t (*method_id)(std::string_view), Schema& schema)
      : parser_(parser), method_id_(method_id), problems_(schema), names_(parser) {}

  void Read(const std::string& file, Schema& schema) {
    CheckTypes(parser_, problems_);
    CheckIncludedServices(parser_, file, names_, problems_);
    for (const flatbuffers::ServiceDef* service : parser_.services_.vec) {
      if (service->file == file) {
        schema.services.push_back(ReadService(*service));
      } else {
        ReadService(*service);  // for its method ids
      }
    }
  }

 private:
  Service ReadService(const flatbuffers::ServiceDef& definition) {
    Service service;
    service.name_space = definition.defined_namespace->components;
    service.full_name = Dotted(service.name_space, definition.name);
    service.comment = definition.doc_comment;
    const ServiceNames::Pair names = names_.Of(definition);
    service.name = names.type;
    service.concept_name = names.concept_name;
    std::vector<std::string> plain;
    for (const flatbuffers::RPCCall* call : definition.calls.vec) {
      plain.push_back(call->name);
      service.methods.push_back(ReadMethod(definition, service.full_name, *call));
    }
    AssignMethodNames(plain, service.methods);
    return service;
  }

  Method ReadMethod(const flatbuffers::ServiceDef& service, const std::string& service_name,
                    const flatbuffers::RPCCall& call) {
    const auto refuse = [&](const std::string& reason) {
      problems_.Add(Kind::kService, service, call.name, "method '" + call.name + "' " + reason);
    };
    Method method;
    method.full_name = service_name + "/" + call.name;
    method.comment = call.doc_comment;
    for (const flatbuffers::StructDef* message : {call.request, call.response}) {
      if (message->fixed) {  // the parser finds out only when the struct comes first
        refuse("has the struct '" + message->name + "' for a message: messages are tables");
      }
    }
    method.request = TypeOf(*call.request);
    method.response = TypeOf(*call.response);
    if (const std::string* streaming = Attribute(call, "streaming")) {
      const std::map<std::string_view, Streaming> kinds = {{"none", Streaming::kNone},
                                                           {"client", Streaming::kClient},
                                                           {"server", Streaming::kServer},
                                                           {"bidi", Streaming::kBidi}};
      const auto kind = kinds.find(*streaming);
      if (kind != kinds.end()) {
        method.streaming = kind->second;
      } else {
        refuse("has the unknown streaming value '" + *streaming +
               "': it is \"none\", \"client\", \"server\" or \"bidi\"");
      }
    }
    if (const std::string* idempotent = Attribute(call, "idempotent")) {
      method.idempotent = true;
      if (*idempotent != "0") {
        refuse("gives a value to idempotent, which takes none");
      }
    }
    method.id = method_id_(method.full_name);
    const auto [other, is_new] = ids_.emplace(method.id, method.full_name);
    if (!is_new) {
      refuse("has the same id on the wire as '" + other->second + "': rename one of them");
    } else if (method.id == 0) {
      refuse("has the id 0 on the wire, which stands for no method: rename it");
    }
    return method;
  }

  const flatbuffers::Parser& parser_;
  uint64_t (*method_id_)(std::string_view);
  Problems problems_;
  ServiceNames names_;
  std::map<uint64_t, std::string> ids_;  // of every method seen -> its full name
};

}  // namespace

std::string Stem(const std::string& path) {
  std::string stem = path.substr(path.find_last_of('/') + 1);
  if (stem.ends_with(".fbs")) {
    stem.resize(stem.size() - 4);
  }
  return stem;
}

Schema ReadSchema(const std::string& path, const std::vector<std::string>& include_dirs,
                  uint64_t (*method_id)(std::string_view)) {
  Schema schema;
  schema.stem = Stem(path);
  const std::unique_ptr<flatbuffers::Parser> parser = Parse(path, include_dirs, schema);
  if (!schema.problems.empty()) {
    return schema;
  }
  Reader(*parser, method_id, schema).Read(path, schema);
  if (!schema.problems.empty()) {
    return schema;
  }
  schema.files = {path};
  for (const std::string& file : parser->GetIncludedFilesRecursive(path)) {
    if (file != path) {
      schema.files.push_back(file);
    }
  }
  parser->Serialize();
  const flatbuffers::FlatBufferBuilder& built = parser->builder_;
  schema.binary.assign(reinterpret_cast<const char*>(built.GetBufferPointer()), built.GetSize());
  return schema;
}

}  // namespace farcall::codegen
