// A server and a channel over real TCP and shared memory, and what is counted of calls.

#ifndef FARCALL_TESTS_TRANSPORTS_AUTO_WORLD_H_
#define FARCALL_TESTS_TRANSPORTS_AUTO_WORLD_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "farcall/rpc/mutex.h"
#include "farcall/tests/rpc/probe.h"
#include "farcall/transports/auto/auto.h"

namespace farcall::testing {

// Remembers how often it ran each number.
class CountingProbe : public ProbeImpl {
 public:
  absl::Status Do(Context& context, const Ask& request, Reply<Answer>& reply);
  int times(uint64_t number) const;

 private:
  mutable Mutex mutex_;
  std::map<uint64_t, int> times_ ABSL_GUARDED_BY(mutex_);
};

// Pauses that suit a test, in a channel that finds its server again soon.
ChannelOptions Brisk();

// TCP and shared memory.
AutoOptions TcpAndShm();

// Listens at auto://<host>:0.
struct AutoServer {
  explicit AutoServer(AutoOptions paths = TcpAndShm(), ServerOptions options = {},
                      const std::string& host = "127.0.0.1");
  Channel Dial(AutoOptions paths = TcpAndShm(), const ChannelOptions& options = Brisk()) const;

  CountingProbe probe;
  Endpoint address;
  std::unique_ptr<Server> server;
};

// Whether new calls of `channel` go by `path`, within `bound`.
bool GoesBy(const Channel& channel, const std::string& path,
            Duration bound = std::chrono::seconds(10));
// Why `path` is not used; "" when it is, or does not exist.
std::string WhyNot(const Channel& channel, const std::string& path);

// Calls of all sizes, some at a time, until told to stop.
class Traffic {
 public:
  Traffic(const Channel& channel, int at_once);
  ~Traffic() { Stop(); }

  // False when some call does not end.
  bool Stop();
  // After Stop: what is wrong with what calls said and what `probe` ran; "" when nothing is.
  std::string Judge(const CountingProbe& probe) const;
  uint64_t succeeded() const { return succeeded_; }

 private:
  void Next();
  void OnEnd(uint64_t number, const absl::Status& status);

  Probe::Client client_;
  std::atomic<uint64_t> last_{0}, succeeded_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> under_way_{0};
  mutable Mutex mutex_;
  std::map<uint64_t, absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_TRANSPORTS_AUTO_WORLD_H_
