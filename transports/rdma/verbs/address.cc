#include "farcall/transports/rdma/verbs/address.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/resources.h"

namespace farcall::verbs {
namespace {

absl::StatusOr<SocketAddresses> Ask(const HostAndPort& address, int flags) {
  addrinfo hints{};
  hints.ai_flags = flags | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (error != 0) {
    const std::string text =
        absl::StrCat("the host '", address.host, "' is not known: ", ::gai_strerror(error));
    return error == EAI_NONAME ? absl::NotFoundError(text) : absl::UnavailableError(text);
  }
  SocketAddresses addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    std::memcpy(&addresses.emplace_back(), one->ai_addr, one->ai_addrlen);
  }
  ::freeaddrinfo(found);
  return addresses;
}

}  // namespace

absl::StatusOr<HostAndPort> ParseAddress(std::string_view address) {
  const size_t colon = address.rfind(':');
  HostAndPort parsed;
  if (colon != std::string_view::npos) {
    parsed.host = address.substr(0, colon);
    parsed.port = address.substr(colon + 1);
    if (parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']') {
      parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
    }
  }
  const bool number = !parsed.port.empty() && parsed.port.size() <= 5 &&
                      parsed.port.find_first_not_of("0123456789") == std::string::npos &&
                      std::stoul(parsed.port) <= UINT16_MAX;
  if (parsed.host.empty() || !number) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Absl(address), "': an RDMA address is host:port, IPv6 in brackets"));
  }
  return parsed;
}

absl::StatusOr<SocketAddresses> NumericAddress(const HostAndPort& address) {
  return Ask(address, AI_NUMERICHOST);
}

absl::StatusOr<SocketAddresses> LookUp(const HostAndPort& address) {
  absl::StatusOr<SocketAddresses> found = Ask(address, 0);
  if (found.ok()) return found;
  return absl::UnavailableError(found.status().message());
}

absl::Status StartLookUp(const HostAndPort& address,
                         absl::AnyInvocable<void(absl::StatusOr<SocketAddresses>)> done) {
  try {
    StartThread("farcall-names", [address, done = std::move(done)]() mutable {
      done(LookUp(address));
    }).detach();
  } catch (const std::system_error& error) {
    return OutOfResources(absl::StrCat("looking up '", address.host, "'"), error.code());
  }
  return absl::OkStatus();
}

std::string AddressText(const sockaddr& address) {
  const bool v6 = address.sa_family == AF_INET6;
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "0";
  ::getnameinfo(&address, v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in), host, sizeof host, port,
                sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", port);
}

}  // namespace farcall::verbs
