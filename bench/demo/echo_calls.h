// One call of the Echo service after the other, as a workload asks for them, built and checked.
#ifndef FARCALL_BENCH_DEMO_ECHO_CALLS_H_
#define FARCALL_BENCH_DEMO_ECHO_CALLS_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "echo.rpc.h"
#include "farcall/bench/measure/workload.h"
#include "farcall/rpc/channel.h"

namespace farcall::bench {

// Payloads up to this size travel in the FlatBuffer, larger ones of a latency workload as an
// attachment, as a service would have them.
inline constexpr size_t kMaxDataBytes = 4096;

// Not thread-safe; asynchronous calls end on the driver of the channel's loop. What a call returns:
// OK; DATA_LOSS when the reply is not the answer to the request; the status of a call that failed.
class EchoCalls {
 public:
  // INVALID_ARGUMENT for a payload without room for its stamps.
  static absl::StatusOr<EchoCalls> Make(const Channel& channel, const Workload& workload);

  // From now on requests are filled whole, and what comes back of them is compared whole. Else only
  // the stamps at their ends are written: a body is built where it is sent from, and what a caller
  // would write into it is no cost of the call.
  void CompareInFull(bool in_full) { in_full_ = in_full; }

  // Blocking.
  absl::Status Call(uint64_t number);

  // Asynchronous: `done(absl::Status)`.
  template <class Done>
  void Start(uint64_t number, Done done) {
    if (discards_) {
      Builder<services::DiscardRequest> request = NewDiscard();
      Build(number, request);
      echo_.AsyncDiscard(std::move(request), options_,
                         [this, number, done = std::move(done)](
                             absl::StatusOr<Msg<services::DiscardReply>> reply) mutable {
                           done(Check(number, reply));
                         });
      return;
    }
    Builder<services::BytesRequest> request = NewBytes();
    if (absl::Status built = Build(number, request); !built.ok()) return done(built);
    echo_.AsyncBytes(std::move(request), options_,
                     [this, number, done = std::move(done)](
                         absl::StatusOr<Msg<services::BytesReply>> reply) mutable {
                       done(Check(number, reply));
                     });
  }

 private:
  EchoCalls(const Channel& channel, const Workload& workload);

  // What a request has beside its data: a table, its offsets and the padding of an alignment.
  static constexpr size_t kTableBytes = 128;

  Builder<services::BytesRequest> NewBytes() { return echo_.NewBytes(data_bytes_ + kTableBytes); }
  Builder<services::DiscardRequest> NewDiscard() {
    return echo_.NewDiscard(data_bytes_ + kTableBytes);
  }
  absl::Status Build(uint64_t number, Builder<services::BytesRequest>& request) const;
  void Build(uint64_t number, Builder<services::DiscardRequest>& request) const;
  void Fill(uint64_t number, uint8_t* payload, size_t bytes) const;
  absl::Status Check(uint64_t number, const absl::StatusOr<Msg<services::BytesReply>>& reply) const;
  absl::Status Check(uint64_t number,
                     const absl::StatusOr<Msg<services::DiscardReply>>& reply) const;

  services::Echo::Client echo_;
  CallOptions options_;
  const bool discards_;                  // else the bytes come back
  const size_t data_bytes_;              // in the request's FlatBuffer
  const size_t attachment_bytes_;        // beside it
  const size_t reply_attachment_bytes_;  // asked for
  bool in_full_ = false;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_ECHO_CALLS_H_
