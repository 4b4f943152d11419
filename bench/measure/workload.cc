#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

const char* NameOf(Mode mode) { return mode == Mode::kEvent ? "event" : "busy"; }

const char* NameOf(Case workload_case) {
  switch (workload_case) {
    case Case::kLatency:
      return "latency";
    case Case::kThroughput:
      return "throughput";
    case Case::kBulkRequest:
      return "bulk_request";
    case Case::kBulkReply:
      break;
  }
  return "bulk_reply";
}

}  // namespace farcall::bench
