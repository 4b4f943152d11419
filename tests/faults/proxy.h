// Proxy: stands between a channel and a server and ends their connection at a byte that the test
// chooses, on both sides.

#ifndef FARCALL_TESTS_FAULTS_PROXY_H_
#define FARCALL_TESTS_FAULTS_PROXY_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "farcall/rpc/endpoint.h"
#include "farcall/tests/transports/tcp/raw_socket.h"

namespace farcall::faults {

class Proxy {
 public:
  enum class Way { kRequests, kReplies };
  enum class Cut {
    kReset,  // as of a process that died: what is on the way is lost (TCP)
    kClose,  // an orderly end, said while both still write
  };

  // Listens at `listen` and connects whoever comes with `server`.
  Proxy(const Endpoint& listen, Endpoint server);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  Endpoint address() const { return listener_.address(); }

  // Ends the connection that is the first to have carried `bytes` more that way, with a part of
  // what comes then passed on. One cut at a time. Any thread.
  void CutAfter(Way way, uint64_t bytes, Cut cut);
  // Cuts that were made.
  uint64_t cuts() const { return cuts_; }

 private:
  struct Side {
    tcp::testing::RawSocket socket;
    std::vector<char> pending;  // read from this side, not yet written to the other
    bool ended = false;         // nothing comes from it any more
  };
  struct Link {
    Side caller, server;
  };

  void Run();
  void Accept();
  // False: the link is to go.
  bool Move(Link& link, Way way, short from_events, short to_events);
  bool Forward(Side& from, Side& to, Way way);
  void End(Link& link, Cut cut);

  tcp::testing::RawSocket listener_;
  const Endpoint server_;
  std::list<Link> links_;  // the proxy's thread only
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> cuts_{0};
  std::atomic<bool> armed_{false};
  std::atomic<Way> way_{Way::kRequests};
  std::atomic<Cut> cut_{Cut::kReset};
  std::atomic<uint64_t> left_{0};
  std::thread thread_;
};

}  // namespace farcall::faults

#endif  // FARCALL_TESTS_FAULTS_PROXY_H_
