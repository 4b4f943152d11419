#include "farcall/transports/tcp/connector.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/system_error.hpp>
#include <cassert>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/connect_handle.h"
#include "farcall/transports/tcp/address.h"
#include "farcall/transports/tcp/errors.h"

namespace farcall::tcp {
namespace {

// How long to wait before a Unix socket whose queue of waiting clients is full is tried again.
constexpr Duration kQueueFullPause = std::chrono::milliseconds(10);

std::string ConnectErrorText(int error) {
  switch (error) {
    case ECONNREFUSED:
      return "connection refused: is the server running?";
    case ENOENT:
      return "no such socket file: is the server running?";
    case EACCES:
      return "permission denied: this user may not write to the socket's file";
    case EHOSTUNREACH:
    case ENETUNREACH:
      return absl::StrCat(ErrorText(error), ": no route leads there from this machine");
    default:
      return ErrorText(error);
  }
}

// Two sockets of one process can connect to themselves when a port of the ephemeral range is
// dialled and nobody listens: a server that is not there would seem to answer.
bool ConnectedToItself(int socket) {
  const Names names = NamesOf(socket);
  return names.peer == names.local && names.peer.starts_with("tcp://");
}

class Connector final : public std::enable_shared_from_this<Connector> {
 public:
  Connector(EventLoop& loop, Endpoint endpoint, TimePoint deadline, Transport::ConnectDone done,
            std::shared_ptr<const Settings> settings)
      : loop_(loop),
        endpoint_(std::move(endpoint)),
        deadline_(deadline),
        settings_(std::move(settings)),
        done_(std::move(done)),
        socket_(loop.io()),
        resolver_(loop.io()) {}

  void Start();
  void Cancel();

 private:
  using Resolver = asio::ip::basic_resolver<asio::ip::tcp, asio::io_context::executor_type>;

  class Alarm final : public Timer {
   public:
    explicit Alarm(Connector& connector) : connector_(connector) {}
    void OnTimer() override { connector_.OnAlarm(); }

   private:
    Connector& connector_;
  };

  void Resolve();
  void OnResolved(const boost::system::error_code& error, const Resolver::results_type& results);
  void Next();
  void Attempt();
  void OnWritable();
  void OnAlarm();
  void AttemptFailed(std::string_view why);
  std::string Progress() const;
  void Succeed();
  void Fail(absl::Status status);
  void Complete(absl::StatusOr<std::unique_ptr<Connection>> result);
  void Disarm();

  const SocketAddress& address() const { return addresses_[tried_]; }

  EventLoop& loop_;
  const Endpoint endpoint_;
  const TimePoint deadline_;
  const std::shared_ptr<const Settings> settings_;
  Transport::ConnectDone done_;  // empty when it ran or was dropped

  std::vector<SocketAddress> addresses_;
  size_t tried_ = 0;
  std::string failures_;  // of the addresses before
  Socket socket_;
  uint64_t attempt_ = 0;  // handlers of earlier attempts are stale
  bool started_ = false;
  bool queue_full_ = false;
  Resolver resolver_;
  Alarm alarm_{*this};
};

// Runs `step` of `connector` in a coming turn.
void Later(EventLoop& loop, std::shared_ptr<Connector> connector,
           void (*step)(Connector& connector)) {
  loop.Post([connector = std::move(connector), step] { step(*connector); });
}

void Connector::Start() {
  Later(loop_, shared_from_this(), [](Connector& self) {
    if (!self.done_) return;
    absl::Status check = CheckEndpoint(self.endpoint_, /*connecting=*/true);
    if (!check.ok()) {
      self.Fail(std::move(check));
    } else if (self.loop_.now() >= self.deadline_) {
      self.OnAlarm();
    } else {
      self.Resolve();
    }
  });
}

void Connector::Resolve() {
  started_ = true;
  loop_.timers().Arm(alarm_, deadline_);
  if (endpoint_.scheme == "unix") {
    addresses_.push_back(UnixAddress(endpoint_));
    return Next();
  }
  if (std::optional<SocketAddress> numeric = NumericAddress(endpoint_); numeric.has_value()) {
    addresses_.push_back(*numeric);
    return Next();
  }
  try {
    resolver_.async_resolve(endpoint_.host, std::to_string(endpoint_.port),
                            Resolver::numeric_service,
                            [self = shared_from_this()](const boost::system::error_code& error,
                                                        const Resolver::results_type& results) {
                              self->OnResolved(error, results);
                            });
  } catch (const boost::system::system_error& error) {  // the first name of a loop takes a thread
    Fail(absl::UnavailableError(absl::StrCat(endpoint_.ToString(),
                                             ": cannot resolve the name: no thread is left for it "
                                             "(raise ulimit -u or ulimit -v): ",
                                             error.what())));
  }
}

void Connector::OnResolved(const boost::system::error_code& error,
                           const Resolver::results_type& results) {
  if (!done_) return;
  if (error) {
    return Fail(NameError(endpoint_.ToString(), "cannot connect", endpoint_.host, error.message()));
  }
  for (const auto& result : results) addresses_.emplace_back(result.endpoint());
  Next();
}

// Tries the next address, or gives up.
void Connector::Next() {
  if (tried_ == addresses_.size()) {
    Fail(absl::UnavailableError(
        absl::StrCat(endpoint_.ToString(), ": cannot connect: ", failures_)));
    return;
  }
  const TimePoint now = loop_.now();
  const auto left = static_cast<Duration::rep>(addresses_.size() - tried_);
  const Duration share = (std::max(deadline_, now) - now) / left;
  loop_.timers().Arm(alarm_, left == 1 ? deadline_ : now + share);
  Attempt();
}

void Connector::Attempt() {
  ++attempt_;
  queue_full_ = false;
  const int family = address().data()->sa_family;
  Descriptor descriptor = OpenSocket(family);
  if (!descriptor) return AttemptFailed(ErrorText(errno));
  absl::Status options = SetBufferOptions(descriptor.get(), family, settings_->options);
  if (!options.ok()) return Fail(std::move(options));

  const int result =
      ::connect(descriptor.get(), address().data(), static_cast<socklen_t>(address().size()));
  const int error = result == 0 ? 0 : errno;
  if (error == EAGAIN) {  // a Unix socket whose server is slow to accept
    queue_full_ = true;
    loop_.timers().Arm(alarm_, std::min(deadline_, loop_.now() + kQueueFullPause));
    return;
  }
  if (error != 0 && error != EINPROGRESS) {
    return AttemptFailed(ConnectErrorText(error));
  }
  boost::system::error_code failed;
  socket_.assign(asio::generic::stream_protocol(family, 0), descriptor.get(), failed);
  if (failed) return AttemptFailed(failed.message());
  descriptor.release();
  if (error == 0) return Succeed();
  socket_.async_wait(Socket::wait_write, [self = shared_from_this(),
                                          attempt = attempt_](const boost::system::error_code&) {
    if (self->done_ && self->attempt_ == attempt) self->OnWritable();
  });
}

void Connector::OnWritable() {
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_ERROR, &error, &size) != 0)
    error = errno;
  if (error != 0) {
    AttemptFailed(ConnectErrorText(error));
  } else {
    Succeed();
  }
}

// The time of the attempt, or of the whole, is over.
void Connector::OnAlarm() {
  const auto keep =
      shared_from_this();  // `done` may drop the handle, which may be all that held us
  if (loop_.now() >= deadline_) {
    Fail(absl::DeadlineExceededError(
        absl::StrCat(endpoint_.ToString(), ": not connected within the deadline: ", Progress())));
  } else if (queue_full_) {
    Attempt();
  } else {
    AttemptFailed("no answer");
  }
}

// How far it came, for whoever looks for the reason.
std::string Connector::Progress() const {
  if (!started_) return "it had passed already";
  if (addresses_.empty()) {
    return absl::StrCat("the name ", endpoint_.host, " did not resolve in time");
  }
  return absl::StrCat(failures_, failures_.empty() ? "" : "; ", "no answer from ",
                      ToText(address()),
                      queue_full_ ? ": the server accepts nobody" : ": is a firewall between?");
}

void Connector::AttemptFailed(std::string_view why) {
  boost::system::error_code ignored;
  socket_.close(ignored);
  absl::StrAppend(&failures_, failures_.empty() ? "" : "; ");
  // One address that is spelled like the endpoint need not be named twice.
  const std::string name = ToText(address());
  if (name != endpoint_.ToString()) absl::StrAppend(&failures_, name, ": ");
  failures_.append(why);
  ++tried_;
  Next();
}

void Connector::Succeed() {
  const int socket = socket_.native_handle();
  if (ConnectedToItself(socket)) return AttemptFailed(ConnectErrorText(ECONNREFUSED));
  boost::system::error_code error;
  Descriptor descriptor(socket_.release(error));
  if (error) return AttemptFailed(error.message());
  Complete(MakeConnection(loop_, std::move(descriptor), *settings_));
}

void Connector::Fail(absl::Status status) { Complete(std::move(status)); }

void Connector::Complete(absl::StatusOr<std::unique_ptr<Connection>> result) {
  Transport::ConnectDone done = std::exchange(done_, nullptr);
  Disarm();
  done(std::move(result));
}

void Connector::Disarm() {
  alarm_.Disarm();
  boost::system::error_code ignored;
  socket_.close(ignored);
  resolver_.cancel();
}

void Connector::Cancel() {
  if (!done_) return;
  done_ = nullptr;
  Disarm();
}

}  // namespace

std::unique_ptr<Transport::PendingConnect> StartConnect(EventLoop& loop, const Endpoint& endpoint,
                                                        TimePoint deadline,
                                                        Transport::ConnectDone done,
                                                        std::shared_ptr<const Settings> settings) {
  assert(loop.IsDriver());
  auto connector =
      std::make_shared<Connector>(loop, endpoint, deadline, std::move(done), std::move(settings));
  connector->Start();
  return std::make_unique<ConnectHandle<Connector>>(std::move(connector));
}

}  // namespace farcall::tcp
