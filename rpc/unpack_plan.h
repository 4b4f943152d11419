// UnpackPlan: how much memory flatc's object API would take for a message, before it takes any.
//
// A FlatBuffer may name one string or table very often; unpacked, each time is a copy: a request of
// 100 KB can be a gigabyte of objects. The plan is made from the schema that generated code carries
// (ServiceInfo::schema), once for each method that is served through the object API, and walks a
// body as UnPackTo would, adding up instead of allocating. It stops at the limit that it is given,
// so that the walk is as bounded as the objects.

#ifndef FARCALL_RPC_UNPACK_PLAN_H_
#define FARCALL_RPC_UNPACK_PLAN_H_

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "farcall/rpc/buffer.h"
#include "farcall/rpc/limits.h"
#include "farcall/rpc/method.h"

namespace farcall {

// Constant once made: any thread.
class UnpackPlan {
 public:
  // For the requests of `method`, which `service` declares. Null when the schema does not have it:
  // generated code's always does.
  static std::shared_ptr<const UnpackPlan> Of(const ServiceInfo& service, const MethodInfo& method);

  // Bytes of heap that the objects of `body` take, about: what the allocator adds is guessed, and a
  // few bytes of padding. A sum above `limit` may be any number above it. `body` was verified.
  uint64_t Bytes(const Buffer& body, uint64_t limit) const;

  // RESOURCE_EXHAUSTED when they are more than limits.max_unpacked_bytes and than twice the body;
  // names the method and the option.
  absl::Status Check(const Buffer& body, const MessageLimits& limits,
                     std::string_view method) const;

 private:
  enum class Kind : uint8_t {
    kString,
    kStruct,
    kTable,
    kUnion,
    kFlat,  // a vector of scalars or structs
    kStrings,
    kTables,
    kUnions,
    kNothing,  // a value of a union that is not known
  };
  // A field that needs memory of its own, or a value of a union.
  struct Part {
    Kind kind = Kind::kNothing;
    flatbuffers::voffset_t slot = 0;  // where a table says where the field is
    uint32_t bytes = 0;               // kStruct, kFlat: of one element
    size_t index = 0;                 // in tables_ or unions_
  };
  struct TableShape {
    uint32_t bytes = 0;  // sizeof its object, about
    std::vector<Part> parts;
  };
  using UnionShape = absl::flat_hash_map<uint8_t, Part>;  // by the value of its type field

  class Maker;
  class Walk;

  std::vector<TableShape> tables_;  // as numbered by the schema, structs included
  std::vector<UnionShape> unions_;  // as its enums
  size_t root_ = 0;
};

}  // namespace farcall

#endif  // FARCALL_RPC_UNPACK_PLAN_H_
