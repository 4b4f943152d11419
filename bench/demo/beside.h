// What else goes on while a small call is measured.
#ifndef FARCALL_BENCH_DEMO_BESIDE_H_
#define FARCALL_BENCH_DEMO_BESIDE_H_

#include <boost/asio/cancellation_signal.hpp>
#include <cstddef>
#include <future>
#include <vector>

#include "absl/status/status.h"
#include "echo.rpc.h"
#include "farcall/rpc/channel.h"

namespace farcall::bench {

// Sends one payload after the other over a channel, as attachments of requests, for as long as it
// lives; the call under way at the end is cancelled.
class PayloadsBeside {
 public:
  // Returns when the first payload is over: its memory at the server is warm from then on, as the
  // floor's is.
  PayloadsBeside(const Channel& channel, size_t bytes);
  // Returns when nothing is under way any more.
  ~PayloadsBeside();
  PayloadsBeside(const PayloadsBeside&) = delete;
  PayloadsBeside& operator=(const PayloadsBeside&) = delete;

  // Ends the traffic. Why a payload failed, if one did, or that none was under way at all.
  absl::Status Stop();

 private:
  // On the channel's loop.
  void Next();
  void Ended(const absl::Status& status);

  services::Echo::Client echo_;
  EventLoop& loop_;
  const std::vector<std::byte> payload_;
  boost::asio::cancellation_signal cancel_;
  bool stopping_ = false;
  bool under_way_ = false;
  absl::Status failed_;
  bool warm_ = false;
  std::promise<void> first_over_;
  std::promise<void> over_;
  bool stopped_ = false;  // of the owner's thread
};

// `count` more channels to `address` on `loop`, each of which has made a call and then idles.
absl::StatusOr<std::vector<Channel>> OpenIdle(const std::string& address, int count,
                                              const std::shared_ptr<EventLoop>& loop);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_BESIDE_H_
