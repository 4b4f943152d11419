// The main program of every peer: its server, or its client, which measures.
#include <malloc.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "farcall/bench/measure/handover.h"
#include "farcall/bench/peers/peer.h"

namespace farcall::bench {
namespace {

constexpr char kUsage[] =
    "usage: farcall_peer_… VARIANT about\n"
    "       farcall_peer_… VARIANT serve CASE BYTES OUTSTANDING\n"
    "       farcall_peer_… VARIANT call CASE BYTES OUTSTANDING WARM_UP_MS DURATION_MS ADDRESS "
    "SERVER_PID [counted]\n"
    "A library of others that runs a workload of the demo, which calls this program. 'about' "
    "prints version and\n"
    "settings; 'serve' prints 'listening on ADDRESS' and runs until killed; 'call' measures, and "
    "prints\n"
    "'measured …', with 'counted' also of what it cost.\n";

// A large body is memory that malloc would give back to the system and fault in again for each
// call, which costs 2 to 4 times what the library does with it. So malloc keeps what it has.
void KeepHeap() {
  constexpr int kNever = 1 << 30;
  ::mallopt(M_MMAP_THRESHOLD, kNever);
  ::mallopt(M_TRIM_THRESHOLD, kNever);
}

bool Parse(std::string_view text, auto& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool Parse(std::string_view text, std::chrono::nanoseconds& time) {
  int64_t ms = 0;
  if (!Parse(text, ms)) return false;
  time = std::chrono::milliseconds(ms);
  return true;
}

bool ParseCase(std::string_view text, Case& kind) {
  for (const Case known :
       {Case::kLatency, Case::kThroughput, Case::kBulkRequest, Case::kBulkReply}) {
    if (text != NameOf(known)) continue;
    kind = known;
    return true;
  }
  return false;
}

int Ended(const absl::Status& status, std::string_view variant) {
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "farcall_peer %s: %s\n", std::string(variant).c_str(),
               status.ToString().c_str());
  return EXIT_FAILURE;
}

absl::Status Serve(Peer& peer, const Workload& workload) {
  return peer.Serve(PeerSizes(workload), [](const std::string& address) {
    std::printf("listening on %s\n", address.c_str());
    std::fflush(stdout);
  });
}

absl::Status Call(Peer& peer, const Workload& workload, const std::string& address, pid_t server) {
  PeerCalls calls(workload, server);
  absl::Status status = peer.Call(address, calls);
  if (!status.ok()) return status;
  const absl::StatusOr<Measurement> measurement = std::move(calls).Result();
  if (!measurement.ok()) return measurement.status();
  std::printf("measured %s\n", ToLine(*measurement).c_str());
  std::fflush(stdout);
  return absl::OkStatus();
}

// nullopt: the arguments make no sense.
std::optional<int> Run(std::span<const char* const> arguments) {
  if (arguments.size() < 2) return std::nullopt;
  const std::string_view variant = arguments[0];
  const std::string_view what = arguments[1];
  const std::unique_ptr<Peer> peer = MakePeer(variant);
  if (peer == nullptr) return std::nullopt;
  if (what == "about" && arguments.size() == 2) {
    std::printf("about %s\n", peer->About().c_str());
    return EXIT_SUCCESS;
  }
  Workload workload;
  if (arguments.size() < 5 || !ParseCase(arguments[2], workload.kind) ||
      !Parse(arguments[3], workload.bytes) || !Parse(arguments[4], workload.outstanding) ||
      workload.outstanding < 1) {
    return std::nullopt;
  }
  if (what == "serve" && arguments.size() == 5) return Ended(Serve(*peer, workload), variant);
  pid_t server = 0;
  workload.counted = arguments.size() == 10 && std::string_view(arguments[9]) == "counted";
  if (what == "call" && (arguments.size() == 9 || workload.counted) &&
      Parse(arguments[5], workload.warm_up) && Parse(arguments[6], workload.duration) &&
      Parse(arguments[8], server)) {
    return Ended(Call(*peer, workload, arguments[7], server), variant);
  }
  return std::nullopt;
}

}  // namespace
}  // namespace farcall::bench

int main(int argc, char** argv) {
  farcall::bench::KeepHeap();
  farcall::bench::UseOneCongestionControl();
  const std::span<const char* const> arguments(argv + 1, static_cast<size_t>(argc - 1));
  if (const std::optional<int> status = farcall::bench::Run(arguments)) return *status;
  std::fputs(farcall::bench::kUsage, stderr);
  return 2;
}
