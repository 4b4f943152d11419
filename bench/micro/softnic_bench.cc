// The software NIC by itself: two threads, no protocol. Software NIC in shared memory, never RDMA
// hardware.
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
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
        queue(*device.CreateCompletionQueue(size_t{1} << 18)),
        channel(*device.CreateEventChannel()),
        region(*domain->Allocate(bytes, {.local_write = true, .remote_read = true})) {
    std::memset(region->memory().data(), 1, bytes);
  }
  void MakePair(std::unique_ptr<ConnectionId> its_id) {
    id = std::move(its_id);
    pair = *id->CreateQueuePair(*domain, {.send_queue = queue.get(),
                                          .receive_queue = queue.get(),
                                          .send_depth = 2 * kDepth,
                                          .receive_depth = kDepth,
                                          .max_inline = 240});
    std::vector<ReceiveRequest> receives(kDepth, Receive());
    size_t posted = 0;
    if (!pair->PostReceive(receives, posted).ok()) std::abort();
  }
  ReceiveRequest Receive() const { return {0, {region->memory().data(), 64, region->lkey()}}; }
  SendRequest Message(bool signaled) const {
    SendRequest request;
    request.inlined = true;
    request.signaled = signaled;
    request.sge_count = 1;
    request.sges[0] = {region->memory().data(), kSmall, 0};
    return request;
  }
  ConnectionEvent Await() {
    for (;;) {
      if (std::optional<ConnectionEvent> event = channel->Next()) return *std::move(event);
    }
  }
};

class Wire {
 public:
  // `others`: connections beside the one of `client` and `server`, on the same queues.
  explicit Wire(size_t bytes, size_t others = 0) {
    char folder[] = "/tmp/farcall-bench-XXXXXX";
    if (::mkdtemp(folder) == nullptr) std::abort();
    folder_ = folder;
    device_ = *softnic::MakeSoftnicDevice({.runtime_folder = folder_});
    client = std::make_unique<End>(*device_, bytes);
    server = std::make_unique<End>(*device_, bytes);
    listener_ = *device_->Listen(*server->channel, "bench");
    for (size_t i = 0; i < others; ++i) {
      Connect();
      for (End* end : {client.get(), server.get()}) {
        others_.push_back({std::move(end->id), std::move(end->pair)});
      }
    }
    Connect();
  }
  ~Wire() { std::filesystem::remove_all(folder_); }

 private:
  struct Other {
    std::unique_ptr<ConnectionId> id;
    std::unique_ptr<QueuePair> pair;
  };

  void Connect() {
    auto id = *device_->Resolve(*client->channel, "bench");
    client->Await();
    client->MakePair(std::move(id));
    if (!client->id->Connect({}).ok()) std::abort();
    server->MakePair(std::move(server->Await().request));
    if (!server->id->Accept({}).ok()) std::abort();
    client->Await();
    server->Await();
  }

  std::string folder_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<AddressListener> listener_;

 public:
  std::unique_ptr<End> client, server;

 private:
  std::vector<Other> others_;
};

void Send(End& end, uint64_t number) {
  const SendRequest request = end.Message(number % 16 == 0);
  size_t posted = 0;
  if (!end.pair->PostSend(std::span(&request, 1), posted).ok()) std::abort();
}

// Receives one message, and posts a receive for another.
void Receive(End& end) {
  Completion completions[16];
  for (size_t received = 0; received == 0;) {
    const size_t count = end.queue->Poll(completions);
    for (size_t i = 0; i < count; ++i) received += completions[i].opcode == Opcode::kReceive;
  }
  const ReceiveRequest again = end.Receive();
  size_t posted = 0;
  if (!end.pair->PostReceive(std::span(&again, 1), posted).ok()) std::abort();
}

// The calling thread on one core, as long as the object lives.
class Pinned {
 public:
  explicit Pinned(unsigned core) {
    ::pthread_getaffinity_np(::pthread_self(), sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core % std::thread::hardware_concurrency(), &one);
    ::pthread_setaffinity_np(::pthread_self(), sizeof one, &one);
  }
  ~Pinned() { ::pthread_setaffinity_np(::pthread_self(), sizeof before_, &before_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_;
};

// The floor of a round trip: a cache line of each side's, written by it and read by the other.
struct alignas(64) Line {
  std::atomic<uint64_t> number{0};
  std::byte payload[kSmall] = {};
};

class Lines {
 public:
  void Call() {
    there_.number.store(++called_, std::memory_order_release);
    while (back_.number.load(std::memory_order_acquire) != called_) {
    }
  }
  void Echo(uint64_t calls) {
    for (; calls != 0; --calls) {
      while (there_.number.load(std::memory_order_acquire) == echoed_) {
      }
      std::memcpy(back_.payload, there_.payload, kSmall);
      back_.number.store(++echoed_, std::memory_order_release);
    }
  }

 private:
  Line there_, back_;
  alignas(64) uint64_t called_ = 0;
  alignas(64) uint64_t echoed_ = 0;
};

using Clock = std::chrono::steady_clock;

double Nanoseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::nano>(Clock::now() - since).count();
}

double Quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

// Batches of the floor and of the device in turn, so that both see the same cores and the same
// neighbours. The tenth of the batches that are fastest tell what the code costs; the median of all
// ratios, what it costs on this machine now. `others` are connections that are polled, too, and say
// nothing.
void RoundTrip(benchmark::State& state) {
  constexpr uint64_t kBatch = 500;
  const auto others = static_cast<size_t>(state.range(0));
  Wire wire(size_t{1} << 16, others);
  const Pinned pinned(0);
  std::atomic<bool> stop{false};
  Lines lines;
  std::atomic<uint64_t> turn{0};
  std::thread echo([&] {
    const Pinned other(1);
    uint64_t number = 0;
    for (uint64_t done = 0; !stop.load(std::memory_order_acquire);) {
      if (turn.load(std::memory_order_acquire) == done) continue;
      lines.Echo(kBatch);
      for (uint64_t i = 0; i < kBatch; ++i) {
        Receive(*wire.server);
        Send(*wire.server, number++);
      }
      ++done;
    }
  });
  std::vector<double> floors, calls, ratios;
  uint64_t number = 0;
  for (auto _ : state) {
    turn.fetch_add(1, std::memory_order_release);
    auto since = Clock::now();
    for (uint64_t i = 0; i < kBatch; ++i) lines.Call();
    floors.push_back(Nanoseconds(since) / kBatch);
    since = Clock::now();
    for (uint64_t i = 0; i < kBatch; ++i) {
      Send(*wire.client, number++);
      Receive(*wire.client);
    }
    calls.push_back(Nanoseconds(since) / kBatch);
    state.SetIterationTime(calls.back() * 1e-9);
    ratios.push_back(calls.back() / floors.back());
  }
  stop.store(true, std::memory_order_release);
  echo.join();
  state.counters["floor_ns"] = Quantile(floors, 0.1);
  state.counters["call_ns"] = Quantile(calls, 0.1);
  state.counters["ratio"] = Quantile(ratios, 0.5);
}
BENCHMARK(RoundTrip)
    ->Name("softnic/round_trip_32/others")
    ->Arg(0)
    ->Arg(1000)
    ->UseManualTime()
    ->Iterations(400);

// Takes what came, posts receives for it again and sends as many messages, a list each. How many.
uint64_t Answer(End& end) {
  std::array<Completion, 32> completions;
  std::array<ReceiveRequest, 32> receives;
  std::array<SendRequest, 32> sends;
  const size_t count = end.queue->Poll(completions);
  size_t received = 0;
  for (size_t i = 0; i < count; ++i) {
    if (completions[i].opcode != Opcode::kReceive) continue;
    receives[received] = end.Receive();
    sends[received] = end.Message(false);
    ++received;
  }
  if (received == 0) return 0;
  sends[received - 1].signaled = true;
  size_t posted = 0;
  if (!end.pair->PostReceive(std::span(receives).first(received), posted).ok()) std::abort();
  if (!end.pair->PostSend(std::span(sends).first(received), posted).ok()) std::abort();
  return received;
}

// Half of the receive queue's depth of calls at once.
void Stream(benchmark::State& state) {
  constexpr uint64_t kBatch = 20'000;
  Wire wire(size_t{1} << 16);
  const Pinned pinned(0);
  std::atomic<bool> stop{false};
  std::thread echo([&] {
    const Pinned other(1);
    while (!stop.load(std::memory_order_relaxed)) Answer(*wire.server);
  });
  for (uint64_t i = 0; i < kDepth / 2; ++i) Send(*wire.client, i);
  std::vector<double> calls;
  for (auto _ : state) {
    const auto since = Clock::now();
    for (uint64_t answered = 0; answered < kBatch;) answered += Answer(*wire.client);
    calls.push_back(Nanoseconds(since) / kBatch);
    state.SetIterationTime(calls.back() * 1e-9);
  }
  stop.store(true);
  echo.join();
  state.counters["call_ns"] = Quantile(calls, 0.1);
}
BENCHMARK(Stream)->Name("softnic/stream_32/32_at_once")->UseManualTime()->Iterations(50);

// The same on one thread: what the device's own instructions cost, without the way of a cache line
// from core to core.
void RoundTripAlone(benchmark::State& state) {
  Wire wire(size_t{1} << 16);
  uint64_t number = 0;
  for (auto _ : state) {
    Send(*wire.client, number);
    Receive(*wire.server);
    Send(*wire.server, number++);
    Receive(*wire.client);
  }
}
BENCHMARK(RoundTripAlone)->Name("softnic/round_trip_32/one_thread");

// READs and copies of as many bytes between two mappings, in turn.
void Read(benchmark::State& state) {
  const auto bytes = static_cast<uint32_t>(state.range(0));
  Wire wire(bytes);
  const Pinned pinned(0);
  std::byte* const into = wire.client->region->memory().data();
  const std::byte* const from = wire.server->region->memory().data();
  SendRequest request;
  request.opcode = Opcode::kRead;
  request.sge_count = 1;
  request.sges[0] = {into, bytes, wire.client->region->lkey()};
  request.remote_address = reinterpret_cast<uintptr_t>(from);
  request.rkey = wire.server->region->rkey();
  Completion completion;
  size_t posted = 0;
  std::vector<double> copies, reads, ratios;
  for (auto _ : state) {
    auto since = Clock::now();
    std::memcpy(into, from, bytes);
    benchmark::ClobberMemory();
    copies.push_back(Nanoseconds(since));
    since = Clock::now();
    if (!wire.client->pair->PostSend(std::span(&request, 1), posted).ok()) std::abort();
    while (wire.client->queue->Poll(std::span(&completion, 1)) == 0) {
    }
    reads.push_back(Nanoseconds(since));
    if (completion.status != CompletionStatus::kSuccess) std::abort();
    state.SetIterationTime(reads.back() * 1e-9);
    ratios.push_back(copies.back() / reads.back());
  }
  state.counters["memcpy_GBs"] = bytes / Quantile(copies, 0.1);
  state.counters["read_GBs"] = bytes / Quantile(reads, 0.1);
  state.counters["ratio"] = Quantile(ratios, 0.5);
}
BENCHMARK(Read)
    ->Name("softnic/read")
    ->Arg(1 << 20)
    ->Arg(16 << 20)
    ->UseManualTime()
    ->Iterations(100);

}  // namespace
}  // namespace farcall::bench
