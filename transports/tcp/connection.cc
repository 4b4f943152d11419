#include "farcall/transports/tcp/connection.h"

#include <sys/socket.h>

#include <utility>

#include "farcall/transports/tcp/address.h"
#include "farcall/transports/tcp/errors.h"

namespace farcall::tcp {
namespace {

// The user's hold on a Stream.
class TcpConnection final : public Connection {
 public:
  explicit TcpConnection(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~TcpConnection() override { stream_->Detach(); }

  const std::shared_ptr<BufferPool>& pool() const override { return stream_->pool(); }
  void Start(Receiver& receiver) override { stream_->Start(receiver); }
  Ticket Send(Message&& message, SendDone&& done) override {
    return stream_->Send(std::move(message), std::move(done));
  }
  void Withdraw(Ticket ticket) override { stream_->Withdraw(ticket); }
  void Abandon(Ticket ticket, absl::Status status) override {
    stream_->Abandon(ticket, std::move(status));
  }
  void Close(absl::Status status) override { stream_->Close(std::move(status)); }
  ConnectionInfo info() const override { return stream_->info(); }

 private:
  const std::shared_ptr<Stream> stream_;
};

int FamilyOf(int socket) {
  int family = AF_UNSPEC;
  socklen_t size = sizeof(family);
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> MakeConnection(EventLoop& loop, Descriptor descriptor,
                                                           const Settings& settings) {
  const int family = FamilyOf(descriptor.get());
  absl::Status status = SetConnectionOptions(descriptor.get(), family, settings.options);
  if (!status.ok()) return status;
  Names names = NamesOf(descriptor.get());

  Socket socket(loop.io());
  boost::system::error_code error;
  socket.assign(asio::generic::stream_protocol(family, 0), descriptor.get(), error);
  if (error) return SystemError(names.peer, "registering the socket", error.value());
  descriptor.release();
  socket.non_blocking(true, error);  // tells Asio what the socket is already

  auto stream = std::make_shared<Stream>(
      loop, std::move(socket),
      StreamOptions{.transport = family == AF_UNIX ? "unix" : "tcp",
                    .peer = std::move(names.peer),
                    .local = std::move(names.local),
                    .pools = settings.pools,
                    .limits = settings.options.limits,
                    .handshake_timeout = settings.options.handshake_timeout});
  stream->Greet();
  return std::make_unique<TcpConnection>(std::move(stream));
}

}  // namespace farcall::tcp
