#include "farcall/tests/codegen/exercise.h"

#include <iostream>

#include "farcall/tests/codegen/sample.h"
#include "farcall/transports/loopback/loopback.h"

namespace farcall_test {
namespace {

const ::reflection::RPCCall* FindCall(const ::farcall::ServiceInfo& service,
                                      std::string_view method) {
  const ::reflection::Schema* schema = ::reflection::GetSchema(service.schema.data());
  const auto* found = schema->services()->LookupByKey(std::string(service.name).c_str());
  const std::string name(method.substr(service.name.size() + 1));
  if (found != nullptr) {
    for (const ::reflection::RPCCall* call :
         *found->calls()) {  // in the schema's order, not sorted
      if (call->name()->str() == name) {
        return call;
      }
    }
  }
  return nullptr;
}

}  // namespace

std::string SampleBytes(const ::farcall::ServiceInfo& service, std::string_view method, Side side) {
  const ::reflection::RPCCall& call = *FindCall(service, method);
  const bool request = side == Side::kRequest;
  return BuildSample(*::reflection::GetSchema(service.schema.data()),
                     request ? *call.request() : *call.response(),
                     ::farcall::MethodId(method) + (request ? 1 : 2));
}

Exercise::Exercise(std::shared_ptr<::farcall::Transport> transport)
    : transport_(std::move(transport)) {}

void Exercise::Check(bool good, std::string_view method, std::string_view what) {
  ++checks_;
  if (!good) {
    ++failures_;
    std::cerr << method << ": " << what << '\n';
  }
}

void Exercise::Add(const ::farcall::Service& service) {
  ++services_;
  const ::farcall::ServiceInfo& info = service.info();
  ::flatbuffers::Verifier verifier(info.schema.data(), info.schema.size());
  Check(::reflection::VerifySchemaBuffer(verifier), info.name, "the binary schema is malformed");
  for (const ::farcall::MethodInfo& method : info.methods) {
    Check(method.id == ::farcall::MethodId(method.name), method.name, "the id is not its hash");
    Check(FindCall(info, method.name) != nullptr, method.name, "the binary schema lacks it");
  }
  const ::absl::Status added = server_.Add(service);
  Check(added.ok(), info.name, added.ToString());
}

void Exercise::Start() {
  const auto endpoint = ::farcall::ParseEndpoint("loopback://exercise");
  const auto address = server_.Listen(transport_, *endpoint);
  Check(address.ok(), "the server", address.status().ToString());
  channel_ = std::make_unique<::farcall::Channel>(transport_, *endpoint);
}

void Exercise::Streaming(const ::farcall::MethodInfo& method, const ::absl::Status& status) {
  Check(method.streaming != ::farcall::Streaming::kNone, method.name, "does not stream");
  Check(::absl::IsUnimplemented(status), method.name,
        "should be UNIMPLEMENTED: " + status.ToString());
}

int Exercise::Finish() const {
  std::cout << services_ << " services, " << checks_ << " checks, " << failures_ << " failures\n";
  return failures_ == 0 && services_ > 0 ? 0 : 1;
}

}  // namespace farcall_test

int main() {
  farcall_test::Exercise exercise(farcall::MakeLoopbackTransport());
  farcall_test::RunServices(exercise);
  return exercise.Finish();
}
