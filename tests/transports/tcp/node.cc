#include "farcall/tests/transports/tcp/node.h"

#include <stdexcept>
#include <thread>
#include <utility>

#include "farcall/tests/transports/tcp/wire.h"

namespace farcall::tcp::testing {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);

class Work final : public BlockingTask {
 public:
  explicit Work(std::function<void()>& work) : work_(work) {}
  void Run() override {
    work_();
    Finish();
  }

 private:
  std::function<void()>& work_;
};

}  // namespace

// ---- Link ----

void Link::Send(std::string head, std::string body, std::string attachment) {
  node_.On([&] {
    if (connection == nullptr) return;
    connection->Send(MakeMessage(*connection->pool(), head, body, attachment), nullptr);
  });
}

void Link::Close() {
  node_.On([&] { connection->Close(absl::OkStatus()); });
}

absl::Status Link::WaitClosed() {
  if (!node_.Wait([&] { return closed_.has_value(); }))
    throw std::runtime_error("it is not closed");
  absl::Status status;
  node_.On([&] { status = *closed_; });
  return status;
}

std::string Link::WaitMessage(size_t count) {
  if (!node_.Wait([&] { return heads_.size() >= count; })) throw std::runtime_error("no message");
  std::string head;
  node_.On([&] { head = heads_[count - 1]; });
  return head;
}

ConnectionInfo Link::info() {
  ConnectionInfo info;
  node_.On([&] { info = connection->info(); });
  return info;
}

Admission Link::Admit(Ticket, std::span<const std::byte>, MessageSizes sizes) {
  return admit(sizes);
}

void Link::OnMessage(Ticket, Message&& message) {
  std::string head = HeadOf(message);
  if (on_message) on_message(*this, message);
  heads_.push_back(std::move(head));
}

void Link::OnAbandoned(Ticket, absl::Status status) {
  heads_.push_back("abandoned: " + std::string(status.message()));
}

void Link::OnClosed(absl::Status status) { closed_ = std::move(status); }

// ---- Node ----

Node::Node(std::shared_ptr<Transport> transport, ProgressMode mode)
    : transport_(std::move(transport)), loop_({.mode = mode, .dedicated = true}) {}

Node::~Node() {
  listener_ = nullptr;
  On([&] { links_.clear(); });
}

void Node::On(std::function<void()> work) {
  Work task(work);
  if (!loop_.RunBlocking(task).ok()) throw std::runtime_error("On was called on the loop");
}

bool Node::Wait(std::function<bool()> done) {
  const TimePoint end = Clock::Steady().Now() + kPatience;
  while (Clock::Steady().Now() < end) {
    bool came = false;
    On([&] { came = done(); });
    if (came) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

absl::Status Node::TryListen(const std::string& address) {
  auto listener = transport_->Listen(ParseEndpoint(address).value(), {&loop_},
                                     [this](EventLoop&, std::unique_ptr<Connection> connection) {
                                       Link& link = Adopt(std::move(connection));
                                       accepted_.push_back(&link);
                                     });
  if (!listener.ok()) return listener.status();
  listener_ = *std::move(listener);
  return absl::OkStatus();
}

Endpoint Node::Listen(const std::string& address) {
  const absl::Status status = TryListen(address);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  return listener_->address();
}

void Node::StopListening() { listener_->Stop(); }

Link& Node::Adopt(std::unique_ptr<Connection> connection) {
  Link& link = *links_.emplace_back(std::make_unique<Link>(*this));
  link.connection = std::move(connection);
  if (on_link) on_link(link);
  link.connection->Start(link);
  return link;
}

Link& Node::Accepted() {
  if (!Wait([&] { return accepted_.size() > taken_; })) throw std::runtime_error("nobody connects");
  Link* link = nullptr;
  On([&] { link = accepted_[taken_++]; });
  return *link;
}

absl::StatusOr<Link*> Node::Connect(const Endpoint& endpoint, Duration timeout) {
  std::optional<absl::StatusOr<Link*>> result;
  std::unique_ptr<Transport::PendingConnect> pending;
  On([&] {
    pending = transport_->Connect(loop_, endpoint, loop_.now() + timeout,
                                  [&](absl::StatusOr<std::unique_ptr<Connection>> connection) {
                                    if (connection.ok()) {
                                      result = &Adopt(*std::move(connection));
                                    } else {
                                      result = connection.status();
                                    }
                                  });
  });
  const bool ended = Wait([&] { return result.has_value(); });
  On([&] { pending = nullptr; });
  if (!ended) throw std::runtime_error("Connect does not end");
  return *result;
}

void Echo(Link& link) {
  link.on_message = [](Link& self, Message& message) {
    Message reply;
    reply.head = std::move(message.head);
    reply.body = std::move(message.body);
    reply.attachment = std::move(message.attachment);
    self.connection->Send(std::move(reply), nullptr);
  };
}

}  // namespace farcall::tcp::testing
