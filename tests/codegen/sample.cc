#include "farcall/tests/codegen/sample.h"

#include <utility>
#include <vector>

namespace farcall_test {
namespace {

using ::flatbuffers::FlatBufferBuilder;
using ::flatbuffers::Offset;
using ::reflection::BaseType;

constexpr int kOptionalDepth = 2;  // of tables that nobody requires: types may be recursive

class SampleBuilder {
 public:
  SampleBuilder(const ::reflection::Schema& schema, uint64_t seed) : schema_(schema), seed_(seed) {
    builder_.ForceDefaults(true);
  }

  std::string Build(const ::reflection::Object& object) {
    builder_.Finish(Offset<void>(Table(object, 0)));
    const auto* bytes = reinterpret_cast<const char*>(builder_.GetBufferPointer());
    return std::string(bytes, builder_.GetSize());
  }

 private:
  uint64_t Next() { return seed_ = seed_ * 6364136223846793005ULL + 1442695040888963407ULL; }

  std::string Text() { return "text " + std::to_string(Next() % 1000000); }

  // A value that the field's enum declares, where it has one.
  int64_t Integer(const ::reflection::Type& type, BaseType base) {
    const uint64_t value = Next() >> 33;
    if (base == BaseType::Bool) {
      return static_cast<int64_t>(value % 2);
    }
    if (type.index() >= 0) {
      const auto* values = schema_.enums()->Get(static_cast<unsigned>(type.index()))->values();
      return values->Get(static_cast<unsigned>(value % values->size()))->value();
    }
    return static_cast<int64_t>(value % 100);
  }

  template <class T>
  void AddScalar(const ::reflection::Field& field, BaseType base) {
    builder_.AddElement<T>(field.offset(), static_cast<T>(Integer(*field.type(), base)), T{});
  }

  // Calls `add` with a value of the C++ type of `base`.
  template <class Add>
  static void WithScalar(BaseType base, Add&& add) {
    switch (base) {
      case BaseType::Bool:
        return add(uint8_t{});
      case BaseType::Byte:
        return add(int8_t{});
      case BaseType::UByte:
        return add(uint8_t{});
      case BaseType::Short:
        return add(int16_t{});
      case BaseType::UShort:
        return add(uint16_t{});
      case BaseType::Int:
        return add(int32_t{});
      case BaseType::UInt:
        return add(uint32_t{});
      case BaseType::Long:
        return add(int64_t{});
      case BaseType::ULong:
        return add(uint64_t{});
      case BaseType::Float:
        return add(float{});
      case BaseType::Double:
        return add(double{});
      default:
        return;
    }
  }

  static bool IsScalar(BaseType base) { return base >= BaseType::Bool && base <= BaseType::Double; }

  // Bytes that must be a message or a FlexBuffer themselves.
  static bool IsNested(const ::reflection::Field& field) {
    const auto* attributes = field.attributes();
    return attributes != nullptr && (attributes->LookupByKey("nested_flatbuffer") != nullptr ||
                                     attributes->LookupByKey("flexbuffer") != nullptr);
  }

  const ::reflection::Object& ObjectOf(const ::reflection::Type& type) {
    return *schema_.objects()->Get(static_cast<unsigned>(type.index()));
  }

  ::flatbuffers::uoffset_t Vector(const ::reflection::Field& field, int depth) {
    const ::reflection::Type& type = *field.type();
    const BaseType element = type.element();
    if (element == BaseType::String) {
      return builder_
          .CreateVector(std::vector<Offset<::flatbuffers::String>>{builder_.CreateString(Text()),
                                                                   builder_.CreateString(Text())})
          .o;
    }
    if (IsScalar(element) && !IsNested(field)) {
      ::flatbuffers::uoffset_t offset = 0;
      WithScalar(element, [&](auto zero) {
        using T = decltype(zero);
        const T value = static_cast<T>(Integer(type, element));
        offset = builder_.CreateVector(std::vector<T>{value, value, value}).o;
      });
      return offset;
    }
    if (element == BaseType::Obj && !ObjectOf(type).is_struct() && depth < kOptionalDepth) {
      return builder_.CreateVector(std::vector<Offset<void>>{Table(ObjectOf(type), depth + 1)}).o;
    }
    return field.required() ? builder_.CreateVector(std::vector<uint8_t>()).o : 0;
  }

  // What a field refers to, built before its table; 0 for none.
  ::flatbuffers::uoffset_t Referred(const ::reflection::Field& field, int depth) {
    const ::reflection::Type& type = *field.type();
    if (field.deprecated()) {
      return 0;
    }
    if (type.base_type() == BaseType::String) {
      return builder_.CreateString(Text()).o;
    }
    if (type.base_type() == BaseType::Vector) {
      return Vector(field, depth);
    }
    if (type.base_type() == BaseType::Obj && !ObjectOf(type).is_struct() &&
        (field.required() || depth < kOptionalDepth)) {
      return Table(ObjectOf(type), depth + 1).o;
    }
    return 0;
  }

  void AddStruct(const ::reflection::Field& field) {
    const ::reflection::Object& object = ObjectOf(*field.type());
    const std::vector<uint8_t> zeros(static_cast<size_t>(object.bytesize()));
    builder_.Align(static_cast<size_t>(object.minalign()));
    builder_.PushBytes(zeros.data(), zeros.size());
    builder_.AddStructOffset(field.offset(), builder_.GetSize());
  }

  Offset<void> Table(const ::reflection::Object& object, int depth) {
    std::vector<std::pair<const ::reflection::Field*, ::flatbuffers::uoffset_t>> referred;
    for (const ::reflection::Field* field : *object.fields()) {
      if (const ::flatbuffers::uoffset_t offset = Referred(*field, depth); offset != 0) {
        referred.emplace_back(field, offset);
      }
    }
    const auto start = builder_.StartTable();
    for (const auto& [field, offset] : referred) {
      builder_.AddOffset(field->offset(), Offset<void>(offset));
    }
    for (const ::reflection::Field* field : *object.fields()) {
      const BaseType base = field->type()->base_type();
      if (field->deprecated()) {
        continue;
      }
      if (IsScalar(base)) {
        WithScalar(base, [&](auto zero) { AddScalar<decltype(zero)>(*field, base); });
      } else if (base == BaseType::Obj && ObjectOf(*field->type()).is_struct()) {
        AddStruct(*field);
      }
    }
    return Offset<void>(builder_.EndTable(start));
  }

  const ::reflection::Schema& schema_;
  uint64_t seed_;
  FlatBufferBuilder builder_;
};

}  // namespace

std::string BuildSample(const ::reflection::Schema& schema, const ::reflection::Object& object,
                        uint64_t seed) {
  return SampleBuilder(schema, seed).Build(object);
}

}  // namespace farcall_test
