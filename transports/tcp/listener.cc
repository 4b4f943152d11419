#include "farcall/transports/tcp/listener.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/transports/tcp/accepting.h"
#include "farcall/transports/tcp/address.h"
#include "farcall/transports/tcp/errors.h"
#include "farcall/transports/tcp/unix_path.h"

namespace farcall::tcp {
namespace {

class TcpListener final : public Listener {
 public:
  TcpListener(Endpoint address, std::unique_ptr<UnixPath> path,
              std::shared_ptr<Accepting> accepting)
      : address_(std::move(address)), path_(std::move(path)), accepting_(std::move(accepting)) {}
  ~TcpListener() override { Stop(); }

  Endpoint address() const override { return address_; }
  void Stop() override {
    {
      MutexLock lock(mutex_);
      if (path_ != nullptr) path_->Remove();
    }
    accepting_->Stop();
  }

 private:
  const Endpoint address_;
  Mutex mutex_;
  const std::unique_ptr<UnixPath> path_ ABSL_PT_GUARDED_BY(mutex_);
  const std::shared_ptr<Accepting> accepting_;
};

// The addresses that a host stands for, IPv4 first: a name like localhost has both, and most
// clients come by IPv4.
absl::StatusOr<std::vector<SocketAddress>> LocalAddresses(const Endpoint& endpoint) {
  if (auto numeric = NumericAddress(endpoint); numeric.has_value()) return std::vector{*numeric};
  asio::io_context context;
  asio::ip::tcp::resolver resolver(context);
  boost::system::error_code error;
  const auto results = resolver.resolve(
      endpoint.host, std::to_string(endpoint.port),
      asio::ip::tcp::resolver::passive | asio::ip::tcp::resolver::numeric_service, error);
  if (error) {
    return NameError(endpoint.ToString(), "cannot listen", endpoint.host, error.message());
  }
  std::vector<SocketAddress> addresses;
  for (const auto& result : results) addresses.emplace_back(result.endpoint());
  std::stable_partition(addresses.begin(), addresses.end(), [](const SocketAddress& address) {
    return address.data()->sa_family == AF_INET;
  });
  return addresses;
}

// Binds to the first address that lets us.
absl::StatusOr<Descriptor> BindTcp(const Endpoint& endpoint, const TcpOptions& options) {
  absl::StatusOr<std::vector<SocketAddress>> addresses = LocalAddresses(endpoint);
  if (!addresses.ok()) return addresses.status();
  absl::Status status = absl::UnavailableError(
      absl::StrCat(endpoint.ToString(), ": cannot listen: the name has no address"));
  for (const SocketAddress& address : *addresses) {
    const int family = address.data()->sa_family;
    Descriptor socket = OpenSocket(family);
    if (!socket) return SystemError(endpoint.ToString(), "cannot listen", errno);
    // A server that restarts need not wait for its old connections' TIME_WAIT.
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    status = SetBufferOptions(socket.get(), family, options);
    if (!status.ok()) return status;
    if (::bind(socket.get(), address.data(), static_cast<socklen_t>(address.size())) == 0) {
      return socket;
    }
    status = SystemError(endpoint.ToString(), "cannot listen", errno);
  }
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> StartListening(const Endpoint& endpoint,
                                                         std::vector<EventLoop*> loops,
                                                         Transport::Acceptor acceptor,
                                                         std::shared_ptr<const Settings> settings) {
  absl::Status check = CheckEndpoint(endpoint, /*connecting=*/false);
  if (!check.ok()) return check;
  if (loops.empty() || acceptor == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(endpoint.ToString(), ": Listen needs a loop and an acceptor"));
  }

  Descriptor socket;
  Endpoint address = endpoint;
  std::unique_ptr<UnixPath> path;
  if (endpoint.scheme == "unix") {
    socket = OpenSocket(AF_UNIX);
    if (!socket) return SystemError(endpoint.ToString(), "cannot listen", errno);
    path = std::make_unique<UnixPath>();
    absl::Status bound = path->Bind(socket.get(), endpoint, settings->options.unix_mode);
    if (!bound.ok()) return bound;
  } else {
    absl::StatusOr<Descriptor> bound = BindTcp(endpoint, settings->options);
    if (!bound.ok()) return bound.status();
    socket = *std::move(bound);
  }
  if (::listen(socket.get(), settings->options.backlog) != 0) {
    return SystemError(endpoint.ToString(), "cannot listen", errno);
  }
  if (endpoint.scheme == "tcp") {
    absl::StatusOr<uint16_t> port = BoundPort(socket.get());
    if (!port.ok()) return port.status();
    address.port = *port;
  }
  auto accepting =
      std::make_shared<Accepting>(address.ToString(), std::move(socket), std::move(loops),
                                  std::move(acceptor), std::move(settings));
  accepting->Start();
  return std::make_unique<TcpListener>(std::move(address), std::move(path), std::move(accepting));
}

}  // namespace farcall::tcp
