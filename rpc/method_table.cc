#include "farcall/rpc/method_table.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/service.h"

namespace farcall {

absl::Status MethodTable::Add(const Service& service) {
  for (const ServiceInfo* known : services_) {
    if (known->name == service.info().name) {
      return absl::AlreadyExistsError(
          absl::StrCat("service ", Absl(known->name), " was added to this server before"));
    }
  }
  for (const BoundMethod& method : service.methods()) {
    if (const BoundMethod* known = Find(method.info->id); known != nullptr) {
      return absl::AlreadyExistsError(absl::StrCat("methods ", Absl(known->info->name), " and ",
                                                   Absl(method.info->name),
                                                   " have the same id: rename one"));
    }
  }
  for (const BoundMethod& method : service.methods()) methods_.emplace(method.info->id, method);
  services_.push_back(&service.info());
  return absl::OkStatus();
}

absl::Status MethodTable::Unknown(uint64_t method_id) const {
  std::string names;
  for (const ServiceInfo* service : services_) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", Absl(service->name));
  }
  return absl::UnimplementedError(
      absl::StrCat("this server has no method with id 0x", absl::Hex(method_id, absl::kZeroPad16),
                   "; it has ", names.empty() ? "no services" : names,
                   ": is the service added, and are both sides of one schema?"));
}

}  // namespace farcall
