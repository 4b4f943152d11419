#include "farcall/rpc/service.h"

#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"

namespace farcall {

absl::Status StatusOfException(ServerCall& call) {
  const absl::string_view method = Absl(call.method().name);
  if (call.cancelled()) {
    return absl::CancelledError(absl::StrCat(method, " was cancelled while it ran"));
  }
  call.NoteFault();
  try {
    throw;
  } catch (const std::bad_alloc&) {  // of a reply too large for the pool and for the heap, say
    return absl::ResourceExhaustedError(
        absl::StrCat("the handler of ", method, " found no memory left (std::bad_alloc)"));
  } catch (const std::exception& exception) {
    return absl::InternalError(
        absl::StrCat("the handler of ", method, " threw: ", exception.what()));
  } catch (...) {
    return absl::InternalError(absl::StrCat("the handler of ", method, " threw"));
  }
}

absl::Status CheckUnpacked(const BoundMethod& method, const ServerCall& call) {
  if (method.unpack == nullptr) return absl::OkStatus();
  return method.unpack->Check(call.body(), call.limits(), method.info->name);
}

Service::Service(const ServiceInfo& info, ServiceOptions options)
    : info_(&info), options_(options) {
  methods_.reserve(info.methods.size());
  for (const MethodInfo& method : info.methods) methods_.push_back({.info = &method});
}

void Service::Bind(const BoundMethod& method) {
  for (BoundMethod& place : methods_) {
    if (place.info->id == method.info->id) place = method;
  }
}

}  // namespace farcall
