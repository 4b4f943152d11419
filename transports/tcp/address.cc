#include "farcall/transports/tcp/address.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "farcall/transports/tcp/errors.h"

namespace farcall::tcp {
namespace {

constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;

// An address that a system call fills in.
SocketAddress Ask(int socket, int (*what)(int, sockaddr*, socklen_t*)) {
  SocketAddress address;
  auto size = static_cast<socklen_t>(address.capacity());
  if (what(socket, address.data(), &size) != 0) size = 0;
  address.resize(size);
  return address;
}

std::string UnixText(const SocketAddress& address) {
  constexpr size_t kPathAt = offsetof(sockaddr_un, sun_path);
  if (address.size() <= kPathAt) return "unix://";
  const char* path = reinterpret_cast<const char*>(address.data()) + kPathAt;
  return absl::StrCat("unix://",
                      absl::string_view(path, ::strnlen(path, address.size() - kPathAt)));
}

// An address of the network as Asio prints it, with the scope of a link-local one.
std::string TcpText(const SocketAddress& address) {
  asio::ip::tcp::endpoint endpoint;
  if (address.size() > endpoint.capacity()) return "tcp://?";
  std::memcpy(endpoint.data(), address.data(), address.size());
  endpoint.resize(address.size());
  return Endpoint{"tcp", endpoint.address().to_string(), endpoint.port(), ""}.ToString();
}

}  // namespace

absl::Status CheckEndpoint(const Endpoint& endpoint, bool connecting) {
  if (endpoint.scheme == "tcp") {
    if (endpoint.host.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(endpoint.ToString(), ": the host is missing"));
    }
    if (connecting && endpoint.port == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(endpoint.ToString(),
                       ": port 0 cannot be connected to: it asks a listener for a free port"));
    }
    return absl::OkStatus();
  }
  if (endpoint.scheme != "unix") {
    return absl::InvalidArgumentError(absl::StrCat(
        endpoint.ToString(), ": the tcp transport serves tcp://host:port and unix:///path"));
  }
  if (endpoint.path.empty() || endpoint.path.front() != '/') {
    return absl::InvalidArgumentError(absl::StrCat(endpoint.ToString(),
                                                   ": a Unix socket needs an absolute path: write "
                                                   "unix:///",
                                                   endpoint.path));
  }
  if (endpoint.path.back() == '/') {
    return absl::InvalidArgumentError(
        absl::StrCat(endpoint.ToString(), ": this is a folder; a Unix socket needs a file's name"));
  }
  if (endpoint.path.size() > kMaxPath || endpoint.path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(endpoint.ToString(), ": the path has ",
                                                   endpoint.path.size(), " bytes, a Unix socket's ",
                                                   kMaxPath, " at most"));
  }
  return absl::OkStatus();
}

std::optional<SocketAddress> NumericAddress(const Endpoint& endpoint) {
  boost::system::error_code error;
  const asio::ip::address host = asio::ip::make_address(endpoint.host, error);
  if (error) return std::nullopt;
  const asio::ip::tcp::endpoint address(host, endpoint.port);
  return SocketAddress(address);
}

SocketAddress UnixAddress(const Endpoint& endpoint) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, endpoint.path.data(), endpoint.path.size());
  return SocketAddress(&address, offsetof(sockaddr_un, sun_path) + endpoint.path.size() + 1);
}

std::string ToText(const SocketAddress& address) {
  return address.data()->sa_family == AF_UNIX ? UnixText(address) : TcpText(address);
}

Names NamesOf(int socket) {
  const SocketAddress peer = Ask(socket, ::getpeername);
  const SocketAddress local = Ask(socket, ::getsockname);
  Names names{ToText(peer), ToText(local)};
  if (local.data()->sa_family != AF_UNIX) return names;
  std::string& unnamed = names.peer == "unix://" ? names.peer : names.local;
  ucred who{};
  socklen_t size = sizeof(who);
  if (&unnamed == &names.peer) {
    unnamed = names.local;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0) {
      absl::StrAppend(&unnamed, " (process ", who.pid, ", user ", who.uid, ")");
    }
  } else {
    unnamed = names.peer;
  }
  return names;
}

absl::StatusOr<uint16_t> BoundPort(int socket) {
  const SocketAddress address = Ask(socket, ::getsockname);
  asio::ip::tcp::endpoint endpoint;
  if (address.size() == 0 || address.size() > endpoint.capacity()) {
    return SystemError("getsockname", "asking for the bound port", errno);
  }
  std::memcpy(endpoint.data(), address.data(), address.size());
  return endpoint.port();
}

}  // namespace farcall::tcp
