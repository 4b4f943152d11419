#include "farcall/bench/demo/floor_subject.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <system_error>

#include "farcall/bench/floor/client.h"
#include "farcall/bench/measure/child_process.h"

namespace farcall::bench {
namespace {

// The slowest single step, a 16 MiB body, takes some 10 ms on a slow machine.
constexpr std::chrono::seconds kPatience(5);

}  // namespace

absl::StatusOr<Measurement> FloorSubject::Run(const Workload& workload,
                                              std::optional<int> server_core) {
  absl::StatusOr<ChildProcess> server =
      ChildProcess::Start({.command = {server_program_, NameOf(mode_)},
                           .core = server_core,
                           .ready_prefix = "listening on "});
  if (!server.ok()) return server.status();
  const std::string& line = server->ready_line();
  uint16_t port = 0;
  if (std::from_chars(line.data(), line.data() + line.size(), port).ec != std::errc()) {
    return absl::InternalError(server_program_ + " listens on '" + line + "', which is no port");
  }
  absl::StatusOr<FloorClient> client = FloorClient::Connect(port, mode_, kPatience);
  if (!client.ok()) return client.status();
  return client->Run(workload, server->pid());
}

}  // namespace farcall::bench
