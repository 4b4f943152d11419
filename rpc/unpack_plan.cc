#include "farcall/rpc/unpack_plan.h"

#include <flatbuffers/reflection.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"

namespace farcall {
namespace {

using flatbuffers::Offset;
using flatbuffers::Table;
using flatbuffers::Vector;
using reflection::BaseType;

constexpr uint32_t kPointer = sizeof(std::unique_ptr<int>);
constexpr uint32_t kVector = sizeof(std::vector<int>);
constexpr uint32_t kString = sizeof(std::string);
constexpr uint32_t kUnionObject = 16;  // flatc's: a type and a pointer
// A string of up to this needs no memory besides itself.
constexpr size_t kStringInPlace = 15;
// An allocation's own bookkeeping and rounding, as common allocators have it.
constexpr uint64_t kAllocation = 16;

// Where the type of the union at `slot` is: flatc puts it right before.
flatbuffers::voffset_t TypeSlot(flatbuffers::voffset_t slot) {
  return static_cast<flatbuffers::voffset_t>(slot - sizeof(flatbuffers::voffset_t));
}

uint32_t ScalarBytes(BaseType type) {
  switch (type) {
    case BaseType::Short:
    case BaseType::UShort:
      return 2;
    case BaseType::Int:
    case BaseType::UInt:
    case BaseType::Float:
      return 4;
    case BaseType::Long:
    case BaseType::ULong:
    case BaseType::Double:
      return 8;
    default:
      return 1;
  }
}

// The request of "a.b.Service/Method".
const reflection::Object* RequestOf(const reflection::Schema& schema, std::string_view service,
                                    std::string_view method) {
  if (schema.services() == nullptr) return nullptr;
  for (const reflection::Service* declared : *schema.services()) {
    if (declared->name()->string_view() != service || declared->calls() == nullptr) continue;
    for (const reflection::RPCCall* call : *declared->calls()) {
      if (absl::StrCat(Absl(service), "/", call->name()->c_str()) == Absl(method)) {
        return call->request();
      }
    }
  }
  return nullptr;
}

}  // namespace

// ---- from the schema ----

class UnpackPlan::Maker {
 public:
  Maker(const reflection::Schema& schema, UnpackPlan& plan) : schema_(schema), plan_(plan) {}

  void Make() {
    for (const reflection::Object* object : *schema_.objects()) {
      plan_.tables_.push_back(object->is_struct() ? TableShape{} : ShapeOf(*object));
    }
    for (const reflection::Enum* values : *schema_.enums()) {
      UnionShape& shape = plan_.unions_.emplace_back();
      if (!values->is_union()) continue;
      for (const reflection::EnumVal* value : *values->values()) {
        shape[static_cast<uint8_t>(value->value())] = ValueOf(value->union_type());
      }
    }
  }

 private:
  TableShape ShapeOf(const reflection::Object& table) const {
    TableShape shape;
    for (const reflection::Field* field : *table.fields()) {
      if (field->deprecated()) continue;
      Part part = PartOf(*field->type());
      part.slot = field->offset();
      // Each at most 7 bytes from its neighbour: sorted as the schema has them, not as C++ does.
      shape.bytes += (InlineBytes(*field) + 7) / 8 * 8;
      if (part.kind != Kind::kNothing) shape.parts.push_back(part);
    }
    return shape;
  }

  static uint32_t InlineBytes(const reflection::Field& field) {
    switch (field.type()->base_type()) {
      case BaseType::String:
        return kString;
      case BaseType::Vector:
        return kVector;
      case BaseType::Obj:
        return kPointer;
      case BaseType::Union:
        return kUnionObject;
      case BaseType::UType:
        return 0;  // in the union's object
      default:
        return field.optional() ? 2 * ScalarBytes(field.type()->base_type())
                                : ScalarBytes(field.type()->base_type());
    }
  }

  Part PartOf(const reflection::Type& type) const {
    switch (type.base_type()) {
      case BaseType::String:
        return {.kind = Kind::kString};
      case BaseType::Obj:
        return ObjectPart(type.index(), Kind::kStruct, Kind::kTable);
      case BaseType::Union:
        return {.kind = Kind::kUnion, .index = static_cast<size_t>(type.index())};
      case BaseType::Vector:
        break;
      default:
        return {};
    }
    switch (type.element()) {
      case BaseType::String:
        return {.kind = Kind::kStrings};
      case BaseType::Obj:
        return ObjectPart(type.index(), Kind::kFlat, Kind::kTables);
      case BaseType::Union:
        return {.kind = Kind::kUnions, .index = static_cast<size_t>(type.index())};
      case BaseType::UType:
        return {};  // in the unions' objects
      default:
        return {.kind = Kind::kFlat, .bytes = ScalarBytes(type.element())};
    }
  }

  Part ValueOf(const reflection::Type* type) const {
    return type == nullptr ? Part{} : PartOf(*type);
  }

  Part ObjectPart(int32_t index, Kind of_struct, Kind of_table) const {
    const auto at = static_cast<flatbuffers::uoffset_t>(index);
    const reflection::Object& object = *schema_.objects()->Get(at);
    if (!object.is_struct()) return {.kind = of_table, .index = at};
    return {.kind = of_struct, .bytes = static_cast<uint32_t>(object.bytesize())};
  }

  const reflection::Schema& schema_;
  UnpackPlan& plan_;
};

std::shared_ptr<const UnpackPlan> UnpackPlan::Of(const ServiceInfo& service,
                                                 const MethodInfo& method) {
  if (service.schema.empty()) return nullptr;
  const reflection::Schema& schema = *reflection::GetSchema(service.schema.data());
  const reflection::Object* request = RequestOf(schema, service.name, method.name);
  if (request == nullptr) return nullptr;
  auto plan = std::make_shared<UnpackPlan>();
  Maker(schema, *plan).Make();
  const auto& objects = *schema.objects();
  while (objects.Get(static_cast<flatbuffers::uoffset_t>(plan->root_)) != request) ++plan->root_;
  return plan;
}

// ---- over a body ----

class UnpackPlan::Walk {
 public:
  Walk(const UnpackPlan& plan, uint64_t limit) : plan_(plan), limit_(limit) {}

  uint64_t bytes() const { return bytes_; }

  void AddTable(size_t index, const Table* table) {
    const TableShape& shape = plan_.tables_[index];
    Add(shape.bytes + kAllocation);
    for (const Part& part : shape.parts) {
      if (full()) return;
      AddPart(part, *table);
    }
  }

 private:
  bool full() const { return bytes_ > limit_; }
  void Add(uint64_t bytes) { bytes_ += bytes; }

  void AddString(const flatbuffers::String* text) {
    if (text->size() > kStringInPlace) Add(text->size() + 1 + kAllocation);
  }

  // A vector's own memory; its elements follow.
  template <class Element>
  void AddVector(const Vector<Element>& vector, uint64_t element_bytes) {
    if (vector.size() > 0) Add(vector.size() * element_bytes + kAllocation);
  }

  void AddPart(const Part& part, const Table& table) {
    if (!table.CheckField(part.slot)) return;
    if (part.kind == Kind::kStruct) {  // it lies in the table, not behind an offset
      Add(part.bytes + kAllocation);
      return;
    }
    const auto* at = table.GetPointer<const uint8_t*>(part.slot);
    switch (part.kind) {
      case Kind::kFlat:
        // Only the length is read, whatever the elements are.
        AddVector(*reinterpret_cast<const Vector<uint8_t>*>(at), part.bytes);
        return;
      case Kind::kStrings:
        AddStrings(*reinterpret_cast<const Vector<Offset<flatbuffers::String>>*>(at));
        return;
      case Kind::kTables:
        AddTables(part.index, *reinterpret_cast<const Vector<Offset<Table>>*>(at));
        return;
      case Kind::kUnion:
        AddValue(part.index, table.GetField<uint8_t>(TypeSlot(part.slot), 0), at);
        return;
      case Kind::kUnions:
        AddUnions(part.index, table.GetPointer<const Vector<uint8_t>*>(TypeSlot(part.slot)),
                  *reinterpret_cast<const Vector<Offset<void>>*>(at));
        return;
      default:
        AddOne(part, at);
    }
  }

  // A string or table, or a union's value, which may be a struct, too.
  void AddOne(const Part& part, const void* at) {
    if (part.kind == Kind::kString) AddString(static_cast<const flatbuffers::String*>(at));
    if (part.kind == Kind::kTable) AddTable(part.index, static_cast<const Table*>(at));
    if (part.kind == Kind::kStruct) Add(part.bytes + kAllocation);
  }

  void AddValue(size_t index, uint8_t type, const void* at) {
    const auto found = plan_.unions_[index].find(type);
    if (found == plan_.unions_[index].end() || at == nullptr) return;
    if (found->second.kind == Kind::kString) Add(kString + kAllocation);
    AddOne(found->second, at);
  }

  void AddStrings(const Vector<Offset<flatbuffers::String>>& texts) {
    AddVector(texts, kString);
    for (flatbuffers::uoffset_t i = 0; i < texts.size() && !full(); ++i) AddString(texts.Get(i));
  }

  void AddTables(size_t index, const Vector<Offset<Table>>& tables) {
    AddVector(tables, kPointer);
    for (flatbuffers::uoffset_t i = 0; i < tables.size() && !full(); ++i) {
      AddTable(index, tables.Get(i));
    }
  }

  void AddUnions(size_t index, const Vector<uint8_t>* types, const Vector<Offset<void>>& values) {
    AddVector(values, kUnionObject);
    for (flatbuffers::uoffset_t i = 0; i < values.size() && !full(); ++i) {
      if (types != nullptr && i < types->size()) AddValue(index, types->Get(i), values.Get(i));
    }
  }

  const UnpackPlan& plan_;
  const uint64_t limit_;
  uint64_t bytes_ = 0;
};

uint64_t UnpackPlan::Bytes(const Buffer& body, uint64_t limit) const {
  Walk walk(*this, limit);
  walk.AddTable(root_, flatbuffers::GetRoot<Table>(body.data()));
  return walk.bytes();
}

absl::Status UnpackPlan::Check(const Buffer& body, const MessageLimits& limits,
                               std::string_view method) const {
  const uint64_t limit = std::max<uint64_t>(limits.max_unpacked_bytes, 2 * body.size());
  if (Bytes(body, limit) <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a request of ", Absl(method), " of ", body.size(), " bytes would take more than ", limit,
      " bytes as objects (ServerOptions::limits.max_unpacked_bytes): it names the same strings or "
      "tables many times, or is to be served without the object API"));
}

}  // namespace farcall
