// farcall_floor_server: the floor's server as a program of its own.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "farcall/bench/floor/server.h"
#include "farcall/bench/floor/shared_bulk.h"
#include "farcall/bench/floor/shared_echo.h"
#include "farcall/bench/floor/shared_memory.h"
#include "farcall/bench/floor/shared_slots.h"
#include "farcall/bench/floor/stream.h"

namespace farcall::bench {
namespace {

constexpr char kUsage[] =
    "usage: farcall_floor_server event|busy|shm|shm-bulk SLOTS BYTES\n"
    "Answers the floor's messages on a free port of 127.0.0.1, which it prints as 'listening on "
    "PORT',\n"
    "one connection at a time: with blocking sockets (event) or spinning (busy). Runs until "
    "killed.\n"
    "shm: answers them in shared memory, spinning, and prints the file to map as 'listening on "
    "PATH'.\n"
    "shm-bulk: likewise, for SLOTS calls at once with bodies of up to BYTES bytes.\n";

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

template <class Memory>
int ServeSharedMemory(absl::StatusOr<Memory> memory,
                      absl::Status serve(Memory&, std::chrono::seconds)) {
  absl::Status status = memory.status();
  if (memory.ok()) {
    std::printf("listening on %s\n", memory->path().c_str());
    std::fflush(stdout);
    status = serve(*memory, kIdleLimit);
  }
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "farcall_floor_server: %s\n", status.ToString().c_str());
  return EXIT_FAILURE;
}

// False: it is no number.
bool Parse(std::string_view text, size_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// nullopt: they make no sense.
std::optional<int> Run(std::span<const char* const> arguments) {
  const std::string_view what = arguments.empty() ? "" : arguments.front();
  if (arguments.size() == 1 && what == "event") return Serve(Mode::kEvent);
  if (arguments.size() == 1 && what == "busy") return Serve(Mode::kBusy);
  if (arguments.size() == 1 && what == "shm") {
    return ServeSharedMemory(SharedMemory::Create(), ServeShared);
  }
  SharedSlots::Shape shape;
  if (arguments.size() == 3 && what == "shm-bulk" && Parse(arguments[1], shape.slots) &&
      Parse(arguments[2], shape.body_bytes)) {
    return ServeSharedMemory(SharedSlots::Create(shape), ServeBulk);
  }
  return std::nullopt;
}

}  // namespace
}  // namespace farcall::bench

int main(int argc, char** argv) {
  const std::span<const char* const> arguments(argv + 1, static_cast<size_t>(argc - 1));
  if (const std::optional<int> status = farcall::bench::Run(arguments)) return *status;
  const bool help = argc == 2 && std::string_view(argv[1]) == "--help";
  std::fputs(farcall::bench::kUsage, help ? stdout : stderr);
  return help ? EXIT_SUCCESS : 2;
}
