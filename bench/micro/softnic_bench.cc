// The software NIC by itself: two threads, no protocol. Software NIC in shared memory, never RDMA
// hardware.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "farcall/transports/rdma/softnic/softnic.h"

namespace farcall::bench {
namespace {

using namespace rdma;  // NOLINT(google-build-using-namespace): a bench of this one interface

constexpr uint32_t kDepth = 64;
constexpr uint32_t kSmall = 32;

struct End {
  std::unique_ptr<ProtectionDomain> domain;
  std::unique_ptr<CompletionQueue> queue;
  std::unique_ptr<EventChannel> channel;
  std::unique_ptr<MemoryRegion> region;
  std::unique_ptr<ConnectionId> id;
  std::unique_ptr<QueuePair> pair;

  End(Device& device, size_t bytes)
      : domain(*device.CreateProtectionDomain()),
        queue(*device.CreateCompletionQueue(1024)),
        channel(*device.CreateEventChannel()),
        region(*domain->Allocate(bytes, {.local_write = true, .remote_read = true})) {
    std::memset(region->memory().data(), 1, bytes);
  }
  void MakePair(std::unique_ptr<ConnectionId> its_id) {
    id = std::move(its_id);
    pair = *id->CreateQueuePair(*domain, {.send_queue = queue.get(),
                                          .receive_queue = queue.get(),
                                          .send_depth = kDepth,
                                          .receive_depth = kDepth,
                                          .max_inline = 240});
    std::vector<ReceiveRequest> receives(kDepth, Receive());
    size_t posted = 0;
    if (!pair->PostReceive(receives, posted).ok()) std::abort();
  }
  ReceiveRequest Receive() const { return {0, {region->memory().data(), 64, region->lkey()}}; }
  ConnectionEvent Await() {
    for (;;) {
      if (std::optional<ConnectionEvent> event = channel->Next()) return *std::move(event);
    }
  }
};

class Wire {
 public:
  explicit Wire(size_t bytes) {
    char folder[] = "/tmp/farcall-bench-XXXXXX";
    if (::mkdtemp(folder) == nullptr) std::abort();
    folder_ = folder;
    device_ = *softnic::MakeSoftnicDevice({.runtime_folder = folder_});
    client = std::make_unique<End>(*device_, bytes);
    server = std::make_unique<End>(*device_, bytes);
    auto listener = *device_->Listen(*server->channel, "bench");
    auto id = *device_->Resolve(*client->channel, "bench");
    client->Await();
    client->MakePair(std::move(id));
    if (!client->id->Connect({}).ok()) std::abort();
    server->MakePair(std::move(server->Await().request));
    if (!server->id->Accept({}).ok()) std::abort();
    client->Await();
    server->Await();
  }
  ~Wire() { std::filesystem::remove_all(folder_); }

  std::unique_ptr<End> client, server;

 private:
  std::string folder_;
  std::shared_ptr<Device> device_;
};

// Sends one message and posts the receive that it costs.
void Send(End& end, uint64_t number) {
  SendRequest request;
  request.inlined = true;
  request.signaled = number % 16 == 0;
  request.sge_count = 1;
  request.sges[0] = {end.region->memory().data(), kSmall, 0};
  size_t posted = 0;
  if (!end.pair->PostSend(std::span(&request, 1), posted).ok()) std::abort();
}

// Receives one message; false: `stop`.
bool Receive(End& end, const std::atomic<bool>* stop) {
  Completion completions[16];
  size_t received = 0;
  for (uint32_t spins = 0; received == 0; ++spins) {
    const size_t count = end.queue->Poll(completions);
    for (size_t i = 0; i < count; ++i) received += completions[i].opcode == Opcode::kReceive;
    if (count == 0 && spins % 1024 == 1023) {
      if (stop != nullptr && stop->load(std::memory_order_relaxed)) return false;
      std::this_thread::yield();  // the peer may need this core
    }
  }
  const ReceiveRequest again = end.Receive();
  size_t posted = 0;
  if (!end.pair->PostReceive(std::span(&again, 1), posted).ok()) std::abort();
  return true;
}

void RoundTrip(benchmark::State& state) {
  Wire wire(size_t{1} << 16);
  std::atomic<bool> stop{false};
  std::thread echo([&] {
    for (uint64_t i = 0; Receive(*wire.server, &stop); ++i) Send(*wire.server, i);
  });
  uint64_t number = 0;
  for (auto _ : state) {
    Send(*wire.client, number++);
    Receive(*wire.client, nullptr);
  }
  stop.store(true);
  echo.join();
}
BENCHMARK(RoundTrip)->Name("softnic/send_round_trip_32")->UseRealTime();

// The same on one thread: what the device's own instructions cost, without the way of a cache line
// from core to core.
void RoundTripAlone(benchmark::State& state) {
  Wire wire(size_t{1} << 16);
  uint64_t number = 0;
  for (auto _ : state) {
    Send(*wire.client, number);
    Receive(*wire.server, nullptr);
    Send(*wire.server, number++);
    Receive(*wire.client, nullptr);
  }
}
BENCHMARK(RoundTripAlone)->Name("softnic/send_round_trip_32/one_thread");

void Read(benchmark::State& state) {
  const auto bytes = static_cast<uint32_t>(state.range(0));
  Wire wire(bytes);
  SendRequest request;
  request.opcode = Opcode::kRead;
  request.sge_count = 1;
  request.sges[0] = {wire.client->region->memory().data(), bytes, wire.client->region->lkey()};
  request.remote_address = reinterpret_cast<uintptr_t>(wire.server->region->memory().data());
  request.rkey = wire.server->region->rkey();
  Completion completion;
  size_t posted = 0;
  for (auto _ : state) {
    if (!wire.client->pair->PostSend(std::span(&request, 1), posted).ok()) std::abort();
    while (wire.client->queue->Poll(std::span(&completion, 1)) == 0) {
    }
    if (completion.status != CompletionStatus::kSuccess) std::abort();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * bytes);
}
BENCHMARK(Read)->Name("softnic/read")->Arg(1 << 20)->Arg(16 << 20);

// What a READ is measured against.
void Copy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  std::vector<char> from(bytes, 1), to(bytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
}
BENCHMARK(Copy)->Name("softnic/memcpy")->Arg(1 << 20)->Arg(16 << 20);

}  // namespace
}  // namespace farcall::bench
