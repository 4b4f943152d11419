#include "farcall/tests/faults/proxy.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace farcall::faults {
namespace {

using tcp::testing::RawSocket;

constexpr size_t kBuffer = size_t{256} << 10;
constexpr int kLookMs = 5;  // whether to stop

void MakeNonblocking(const RawSocket& socket) {
  ::fcntl(socket.fd(), F_SETFL, ::fcntl(socket.fd(), F_GETFL) | O_NONBLOCK);
}

}  // namespace

Proxy::Proxy(const Endpoint& listen, Endpoint server)
    : listener_(RawSocket::Listen(listen, 64)),
      server_(std::move(server)),
      thread_([this] { Run(); }) {}

Proxy::~Proxy() {
  stop_ = true;
  thread_.join();
}

void Proxy::CutAfter(Way way, uint64_t bytes, Cut cut) {
  way_ = way;
  cut_ = cut;
  left_ = bytes;
  armed_ = true;
}

void Proxy::Run() {
  while (!stop_) {
    std::vector<pollfd> files{{listener_.fd(), POLLIN, 0}};
    for (const Link& link : links_) {
      const auto wants = [](const Side& from, const Side& to) {
        const bool reads = !from.ended && from.pending.size() < kBuffer;
        return static_cast<short>((reads ? POLLIN : 0) | (to.pending.empty() ? 0 : POLLOUT));
      };
      files.push_back({link.caller.socket.fd(), wants(link.caller, link.server), 0});
      files.push_back({link.server.socket.fd(), wants(link.server, link.caller), 0});
    }
    ::poll(files.data(), files.size(), kLookMs);
    size_t at = 1;
    for (auto link = links_.begin(); link != links_.end(); at += 2) {
      const short caller = files[at].revents;
      const short server = files[at + 1].revents;
      const bool stays =
          Move(*link, Way::kRequests, caller, server) && Move(*link, Way::kReplies, server, caller);
      link = stays ? std::next(link) : links_.erase(link);
    }
    if ((files[0].revents & POLLIN) != 0) Accept();
  }
}

void Proxy::Accept() {
  Link link{{listener_.Accept(), {}}, {RawSocket::Connect(server_), {}}};
  MakeNonblocking(link.caller.socket);
  MakeNonblocking(link.server.socket);
  links_.push_back(std::move(link));
}

bool Proxy::Move(Link& link, Way way, short from_events, short to_events) {
  Side& from = way == Way::kRequests ? link.caller : link.server;
  Side& to = way == Way::kRequests ? link.server : link.caller;
  if ((from_events & (POLLIN | POLLHUP | POLLERR)) != 0 && !from.ended &&
      from.pending.size() < kBuffer) {
    char bytes[16384];
    const ssize_t got = ::recv(from.socket.fd(), bytes, sizeof bytes, 0);
    if (got > 0) {
      from.pending.insert(from.pending.end(), bytes, bytes + got);
    } else if (got == 0 || errno != EAGAIN) {
      from.ended = true;
    }
  }
  if (!from.pending.empty() || (to_events & POLLOUT) != 0) {
    if (!Forward(from, to, way)) {
      End(link, cut_);
      return false;
    }
  }
  // An end is passed on whole: Farcall never half-closes for long.
  return !(from.ended && from.pending.empty());
}

// False: this is where the connection is to be cut.
bool Proxy::Forward(Side& from, Side& to, Way way) {
  const bool counts = armed_ && way == way_;
  const size_t may = counts ? std::min<uint64_t>(from.pending.size(), left_) : from.pending.size();
  ssize_t sent = 0;
  if (may > 0) sent = ::send(to.socket.fd(), from.pending.data(), may, MSG_NOSIGNAL);
  if (sent < 0) {
    if (errno == EAGAIN) return true;
    from.ended = true;  // nobody takes it
    from.pending.clear();
    return true;
  }
  from.pending.erase(from.pending.begin(), from.pending.begin() + sent);
  if (!counts) return true;
  left_ -= static_cast<uint64_t>(sent);
  return left_ > 0 || from.pending.empty();
}

void Proxy::End(Link& link, Cut cut) {
  if (cut == Cut::kReset) {
    link.caller.socket.Reset();
    link.server.socket.Reset();
  }  // else they are closed with the link
  armed_ = false;
  ++cuts_;
}

}  // namespace farcall::faults
