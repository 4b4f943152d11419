#include "farcall/bench/demo/floor_subject.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include "farcall/bench/floor/client.h"
#include "farcall/bench/floor/shared_bulk.h"
#include "farcall/bench/floor/shared_echo.h"
#include "farcall/bench/floor/shared_memory.h"
#include "farcall/bench/floor/shared_slots.h"
#include "farcall/bench/measure/child_process.h"

namespace farcall::bench {
namespace {

// The slowest single step, a 16 MiB body, takes some 10 ms on a slow machine.
constexpr std::chrono::seconds kPatience(5);

}  // namespace

absl::StatusOr<Measurement> TcpFloorSubject::Run(const Workload& workload,
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

std::string ShmFloorSubject::path(const Workload& workload) const {
  return workload.bytes <= SharedMemory::kInLine ? "eager" : "rendezvous";
}

absl::StatusOr<Measurement> ShmFloorSubject::Run(const Workload& workload,
                                                 std::optional<int> server_core) {
  const bool echo = workload.kind == Case::kLatency;
  const SharedSlots::Shape shape{.slots = static_cast<size_t>(workload.outstanding),
                                 .body_bytes = workload.bytes};
  std::vector<std::string> command = {server_program_, echo ? "shm" : "shm-bulk"};
  if (!echo) {
    command.push_back(std::to_string(shape.slots));
    command.push_back(std::to_string(shape.body_bytes));
  }
  absl::StatusOr<ChildProcess> server = ChildProcess::Start(
      {.command = command, .core = server_core, .ready_prefix = "listening on "});
  if (!server.ok()) return server.status();
  if (echo) {
    absl::StatusOr<SharedMemory> memory = SharedMemory::Open(server->ready_line());
    if (!memory.ok()) return memory.status();
    return RunShared(*memory, workload, server->pid(), kPatience);
  }
  absl::StatusOr<SharedSlots> slots = SharedSlots::Open(server->ready_line(), shape);
  if (!slots.ok()) return slots.status();
  return RunBulk(*slots, workload, server->pid(), kPatience);
}

}  // namespace farcall::bench
