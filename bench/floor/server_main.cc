// farcall_floor_server: the floor's server as a program of its own.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "farcall/bench/floor/server.h"
#include "farcall/bench/floor/shared_echo.h"
#include "farcall/bench/floor/shared_memory.h"
#include "farcall/bench/floor/stream.h"

namespace farcall::bench {
namespace {

constexpr char kUsage[] =
    "usage: farcall_floor_server event|busy|shm\n"
    "Answers the floor's messages on a free port of 127.0.0.1, which it prints as 'listening on "
    "PORT',\n"
    "one connection at a time: with blocking sockets (event) or spinning (busy). Runs until "
    "killed.\n"
    "shm: answers them in shared memory, spinning, and prints the file to map as 'listening on "
    "PATH'.\n";

// A client that says nothing for this long is gone; measuring ones never rest.
constexpr std::chrono::seconds kIdleLimit(60);

int Serve(Mode mode) {
  const absl::StatusOr<FileDescriptor> listener = ListenOnLoopback(0);
  const absl::StatusOr<uint16_t> port =
      listener.ok() ? PortOf(*listener) : absl::StatusOr<uint16_t>(listener.status());
  if (!port.ok()) {
    std::fprintf(stderr, "farcall_floor_server: %s\n", port.status().ToString().c_str());
    return EXIT_FAILURE;
  }
  std::printf("listening on %d\n", int{*port});
  std::fflush(stdout);
  while (true) {
    absl::StatusOr<Stream> stream = Stream::Accept(*listener, mode, kIdleLimit);
    const absl::Status status = stream.ok() ? ServeFloor(*stream) : stream.status();
    if (!status.ok()) {
      std::fprintf(stderr, "farcall_floor_server: %s\n", status.ToString().c_str());
    }
  }
}

int ServeSharedMemory() {
  absl::StatusOr<SharedMemory> memory = SharedMemory::Create();
  absl::Status status = memory.status();
  if (memory.ok()) {
    std::printf("listening on %s\n", memory->path().c_str());
    std::fflush(stdout);
    status = ServeShared(*memory, kIdleLimit);
  }
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "farcall_floor_server: %s\n", status.ToString().c_str());
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace farcall::bench

int main(int argc, char** argv) {
  using farcall::bench::Mode;
  const std::string_view argument = argc == 2 ? argv[1] : "";
  if (argument == "event") return farcall::bench::Serve(Mode::kEvent);
  if (argument == "busy") return farcall::bench::Serve(Mode::kBusy);
  if (argument == "shm") return farcall::bench::ServeSharedMemory();
  const bool help = argument == "--help";
  std::fputs(farcall::bench::kUsage, help ? stdout : stderr);
  return help ? EXIT_SUCCESS : 2;
}
