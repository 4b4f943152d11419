// The class and the concept of each service.

#include <cstdio>
#include <string>

#include "farcall/codegen/names.h"
#include "farcall/codegen/print.h"

namespace farcall::codegen {
namespace {

constexpr std::string_view kStreamingNames[] = {"kNone", "kClient", "kServer", "kBidi"};

std::string Hex(uint64_t id) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%016llxU", static_cast<unsigned long long>(id));
  return text;
}

// What tells this header from every other: the first service's name, which a program has once, or
// the file's name where there is no service.
std::string Guard(const Schema& schema) {
  std::string guard = "FARCALL_GENERATED_" + schema.stem;
  if (!schema.services.empty()) {
    guard += "_" + schema.services.front().full_name;
  }
  for (char& c : guard) {
    const bool plain = ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9');
    c = plain ? c : '_';
  }
  return guard + "_RPC_H_";
}

// As people write it in their schema and code: "a::b::Hello".
std::string_view Unrooted(std::string_view type) { return type.substr(2); }

std::string PrintDescriptor(const Method& method) {
  return Fill(R"(  struct $Descriptor$ {
    using Request = $Request$;
    using Response = $Response$;
    static constexpr ::farcall::MethodInfo kInfo = {
        $id$, "$full_name$", ::farcall::Streaming::$streaming$, $idempotent$};
    static constexpr const ::farcall::MethodInfo& info() { return kInfo; }
    static auto Invoke(auto& impl, auto&&... arguments)
        -> decltype(impl.$Name$(::std::forward<decltype(arguments)>(arguments)...)) {
      return impl.$Name$(::std::forward<decltype(arguments)>(arguments)...);
    }
  };
)",
              {{"Descriptor", method.descriptor},
               {"Request", method.request.view},
               {"Response", method.response.view},
               {"id", Hex(method.id)},
               {"full_name", method.full_name},
               {"streaming", kStreamingNames[static_cast<size_t>(method.streaming)]},
               {"idempotent", method.idempotent ? "true" : "false"},
               {"Name", method.name}});
}

constexpr std::string_view kUnaryMembers = R"(
$comment$    ::absl::StatusOr<::farcall::Msg<$Response$>> $Name$(
        ::farcall::Builder<$Request$>&& request,
        const ::farcall::CallOptions& options = {}) {
      return ::farcall::Call<$Descriptor$>(
          channel_, ::std::move(request), options);
    }
    // The same, of a message of flatc's object API, which cannot carry an attachment.
    ::absl::StatusOr<::farcall::Msg<$Response$>> $Name$(
        const $Object$& request,
        const ::farcall::CallOptions& options = {}) {
      return ::farcall::Call<$Descriptor$>(channel_, request, options);
    }
    // The same call, ending in `token`: any Asio completion token.
    template <class Token>
    auto $Async$(
        ::farcall::Builder<$Request$>&& request,
        const ::farcall::CallOptions& options, Token&& token) {
      return ::farcall::AsyncCall<$Descriptor$>(
          channel_, ::std::move(request), options, ::std::forward<Token>(token));
    }
    template <class Token>
    auto $Async$(
        const $Object$& request,
        const ::farcall::CallOptions& options, Token&& token) {
      return ::farcall::AsyncCall<$Descriptor$>(
          channel_, request, options, ::std::forward<Token>(token));
    }
    template <class Token>
    auto $Async$(::farcall::Builder<$Request$>&& request, Token&& token) {
      return $Async$(
          ::std::move(request), ::farcall::CallOptions(), ::std::forward<Token>(token));
    }
    template <class Token>
    auto $Async$(const $Object$& request, Token&& token) {
      return $Async$(request, ::farcall::CallOptions(), ::std::forward<Token>(token));
    }
    // A request for $Name$, built in the channel's memory; `bytes_hint`: about how large.
    ::farcall::Builder<$Request$> $New$(::std::size_t bytes_hint = 0) {
      return ::farcall::Builder<$Request$>(channel_.pool(), bytes_hint);
    }
)";

constexpr std::string_view kStreamingMembers = R"(
$comment$    ::absl::Status $Name$() {
      return ::farcall::StreamingUnimplemented($Descriptor$::info());
    }
)";

std::string PrintClient(const Service& service, const std::string& type) {
  std::string printed = R"(
  // Calls the service over a channel: blocking, or ending in any Asio completion token with
  // void(absl::StatusOr<farcall::Msg<Response>>). Cheap to copy; as thread-safe as its channel.
  class Client {
   public:
    explicit Client(::farcall::Channel channel) : channel_(::std::move(channel)) {}
)";
  for (const Method& method : service.methods) {
    const bool streams = method.streaming != Streaming::kNone;
    printed += Fill(streams ? kStreamingMembers : kUnaryMembers,
                    {{"comment", PrintComment(method.comment, "    ")},
                     {"Descriptor", type + "::" + method.descriptor},
                     {"Request", method.request.view},
                     {"Response", method.response.view},
                     {"Object", method.request.object},
                     {"Name", method.name},
                     {"New", method.new_name},
                     {"Async", method.async_name}});
  }
  return printed + R"(
   private:
    ::farcall::Channel channel_;
  };
)";
}

// One message for a method that is missing or has another signature, and nothing that fails after
// it: a plain constant, since compilers explain a concept at length.
constexpr std::string_view kAddMethod = R"text(
    constexpr bool k$Descriptor$Matches = ::farcall::ImplementsMethod<$DescriptorType$, Impl>;
    static_assert(k$Descriptor$Matches,
        "service $Service$ needs a public method '$Name$' of the class that is bound to it, "
        "as one of: (1) absl::Status $Name$(farcall::Context&, const $Request$&, "
        "farcall::Reply<$Response$>&); "
        "(2) boost::asio::awaitable<absl::Status> $Name$(farcall::Context&, "
        "farcall::Msg<$Request$>, farcall::Reply<$Response$>&); "
        "(3) absl::Status $Name$(farcall::Context&, const $RequestT$&, $ResponseT$&)");
    if constexpr (k$Descriptor$Matches) {
      service.Add<$DescriptorType$>(impl);
    }
)text";

std::string PrintBind(const Service& service, const std::string& type) {
  std::string printed = R"(
  // The service, to add to a server, with `impl` doing its work: any class with the methods that
  // the concept below asks for. `impl` must outlive the server.
  template <class Impl>
  static ::farcall::Service Bind([[maybe_unused]] Impl& impl,
                                 ::farcall::ServiceOptions options = {}) {
    ::farcall::Service service(info(), ::std::move(options));)";
  for (const Method& method : service.methods) {
    if (method.streaming != Streaming::kNone) {
      continue;
    }
    printed += Fill(kAddMethod, {{"Descriptor", method.descriptor},
                                 {"DescriptorType", type + "::" + method.descriptor},
                                 {"Service", service.full_name},
                                 {"Name", method.name},
                                 {"Request", Unrooted(method.request.view)},
                                 {"Response", Unrooted(method.response.view)},
                                 {"RequestT", Unrooted(method.request.object)},
                                 {"ResponseT", Unrooted(method.response.object)}});
  }
  return printed + R"(
    return service;
  }

  // What the schema says of the service.
  static const ::farcall::ServiceInfo& info();
)";
}

std::string PrintConcept(const Service& service, const std::string& type) {
  std::string unary;
  for (const Method& method : service.methods) {
    if (method.streaming == Streaming::kNone) {
      unary += unary.empty() ? "" : " &&\n    ";
      unary += "::farcall::ImplementsMethod<" + type + "::" + method.descriptor + ", Impl>";
    }
  }
  return Fill(R"(
// A class that implements the service $Service$.
template <class Impl>
concept $Concept$ =
    $unary$;
)",
              {{"Service", service.full_name},
               {"Concept", service.concept_name},
               {"unary", unary.empty() ? "true" : unary}});
}

std::string PrintService(const Service& service) {
  const std::string type = Rooted(service.name_space, service.name);
  std::string printed = "\n" + PrintComment(service.comment, "");
  printed += "class " + service.name + " {\n public:\n";
  for (const Method& method : service.methods) {
    printed += PrintDescriptor(method);
  }
  printed += PrintClient(service, type);
  printed += PrintBind(service, type);
  printed += "};\n";
  printed += PrintConcept(service, type);
  if (service.name_space.empty()) {
    return printed;
  }
  const std::string name_space = Rooted(service.name_space, "");
  const std::string spelled = name_space.substr(2, name_space.size() - 4);
  return "\nnamespace " + spelled + " {\n" + printed + "\n}  // namespace " + spelled + "\n";
}

}  // namespace

std::string PrintHeader(const Schema& schema) {
  std::string printed =
      Fill(R"(// Generated by farcall-gen from $stem$.fbs. Do not edit.

#ifndef $guard$
#define $guard$

$include$ <cstddef>
$include$ <utility>

$include$ "$stem$_generated.h"
$include$ "farcall/rpc/method.h"
$include$ "farcall/rpc/service.h"
$include$ "farcall/rpc/stub.h"
)",
           {{"include", "#include"}, {"stem", schema.stem}, {"guard", Guard(schema)}});
  for (const Service& service : schema.services) {
    printed += PrintService(service);
  }
  return printed + "\n#endif  // " + Guard(schema) + "\n";
}

}  // namespace farcall::codegen
