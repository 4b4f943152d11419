// MethodTable: method id -> what verifies its requests and what runs its handler.
//
// Filled before the server listens; constant, and so thread-safe, afterwards.

#ifndef FARCALL_RPC_METHOD_TABLE_H_
#define FARCALL_RPC_METHOD_TABLE_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "farcall/rpc/buffer.h"
#include "farcall/rpc/limits.h"
#include "farcall/rpc/method.h"

namespace farcall {

class ServerCall;
class Service;
class UnpackPlan;

// A method of a service object, ready to be called.
struct BoundMethod {
  const MethodInfo* info = nullptr;
  void* implementation = nullptr;
  // Null for a streaming method: UNIMPLEMENTED until streams exist.
  absl::Status (*verify)(const Buffer& body, const MessageLimits& limits) = nullptr;
  void (*run)(const BoundMethod& method, ServerCall& call) = nullptr;
  std::shared_ptr<const UnpackPlan> unpack =
      nullptr;              // for the object API; null: nothing is unpacked
  bool on_workers = false;  // the handler may block: it runs on the server's worker pool
  bool at_once = false;     // the handler has finished when `run` returns
};

class MethodTable {
 public:
  // ALREADY_EXISTS for a service of that name, or when two methods have one id (names both).
  absl::Status Add(const Service& service);

  // The method, or nullptr.
  const BoundMethod* Find(uint64_t method_id) const {
    const auto found = methods_.find(method_id);
    return found == methods_.end() ? nullptr : &found->second;
  }
  // What to answer for an id that Find does not know.
  absl::Status Unknown(uint64_t method_id) const;

  // The services, in the order of Add; for reflection.
  const std::vector<const ServiceInfo*>& services() const { return services_; }

 private:
  absl::flat_hash_map<uint64_t, BoundMethod> methods_;
  std::vector<const ServiceInfo*> services_;
};

}  // namespace farcall

#endif  // FARCALL_RPC_METHOD_TABLE_H_
