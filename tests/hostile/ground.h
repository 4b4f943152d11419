// What is attacked and what is watched meanwhile: a real server, a healthy caller beside it, the
// log, and the process's memory.

#ifndef FARCALL_TESTS_HOSTILE_GROUND_H_
#define FARCALL_TESTS_HOSTILE_GROUND_H_

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "farcall/rpc/log.h"
#include "farcall/rpc/mutex.h"
#include "farcall/rpc/server.h"
#include "farcall/tests/rpc/probe.h"
#include "farcall/transports/tcp/tcp.h"

namespace farcall::hostile {

// Makes one call after the other in a thread of its own until it is destroyed.
class HealthyCaller {
 public:
  // `body_bytes` are echoed by each call. An empty loop or transport: of its own.
  explicit HealthyCaller(const Endpoint& server, size_t body_bytes = 100,
                         std::shared_ptr<EventLoop> loop = {},
                         std::shared_ptr<Transport> transport = {});
  ~HealthyCaller();

  // Waits until `calls` more calls were answered. Empty when they were and none ever failed.
  std::string Trouble(int calls = 2) const;

 private:
  void Run();

  const size_t body_bytes_;
  Channel channel_;
  std::atomic<bool> stop_{false};
  std::atomic<int> answered_{0};
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  std::string failure_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// A server of Probe and Blocker on a port of its own, and a healthy caller.
struct Ground {
  explicit Ground(ServerOptions options = {}, const TcpOptions& tcp = {});

  // Nothing but the healthy caller is connected, within a bound.
  bool Quiet() const;

  testing::ProbeImpl probe;
  testing::BlockerImpl blocker;
  Server server;
  Endpoint endpoint;
  std::unique_ptr<HealthyCaller> healthy;
};

// Keeps the log's lines of warnings and above instead of printing them.
class LogLines {
 public:
  LogLines();
  ~LogLines();
  // Waits until a line contains `text`, within a bound.
  bool Saw(const std::string& text) const;
  std::string all() const;
  void Forget();

 private:
  struct Lines {
    Mutex mutex;
    std::vector<std::string> lines ABSL_GUARDED_BY(mutex);
  };
  std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
};

// What this process uses now.
struct Usage {
  static Usage Now();
  size_t heap_bytes = 0;      // allocated and not freed
  size_t resident_bytes = 0;  // 0 where a sanitizer makes it meaningless
  size_t descriptors = 0;
};

// What is used after each of several equal rounds of faults, and whether it stays flat. The least
// of the last rounds is held against the least of the first: what was only late to be freed does
// not count, what is forgotten each time does.
class Rounds {
 public:
  void Add() { after_.push_back(Usage::Now()); }
  // Empty when a fault costs less than a pointer for ever, beside one connection that lingers, and
  // no round a descriptor.
  std::string Trouble(size_t faults_a_round) const;

 private:
  std::vector<Usage> after_;
};

// The bytes of well-formed FlatBuffers.
std::string AskBody(const std::string& action = {}, uint64_t number = 0, size_t data_bytes = 0);
std::string AnswerBody(const std::string& text, size_t data_bytes = 0);

}  // namespace farcall::hostile

#endif  // FARCALL_TESTS_HOSTILE_GROUND_H_
