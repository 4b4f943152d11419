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
      return "bulk_reply";
    case Case::kSendLat:
      return "send_lat";
    case Case::kReadLat:
      return "read_lat";
    case Case::kReadBw:
      break;
  }
  return "read_bw";
}

}  // namespace farcall::bench
