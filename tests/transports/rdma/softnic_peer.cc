// A process at the other end of a software NIC, for tests: connects to a listener and echoes what
// it receives, until it is killed. Usage: softnic_peer <runtime folder> <address>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "farcall/transports/rdma/softnic/softnic.h"

namespace farcall::softnic {
namespace {

using namespace rdma;

constexpr uint32_t kDepth = 32;
constexpr uint32_t kSlot = 8192;
constexpr size_t kOffered = size_t{1} << 20;

struct Offer {
  uint64_t address;
  uint32_t rkey;
};

void Fail(const char* step) {
  std::fprintf(stderr, "softnic_peer: %s\n", step);
  std::exit(1);
}

int Main(const char* folder, const char* address) {
  const auto device = *MakeSoftnicDevice({.runtime_folder = folder});
  const auto domain = *device->CreateProtectionDomain();
  const auto queue = *device->CreateCompletionQueue(1024);
  const auto channel = *device->CreateEventChannel();
  const auto region =
      *domain->Allocate(kDepth * 2 * kSlot + kOffered, {.local_write = true, .remote_read = true});
  std::byte* const base = region->memory().data();
  for (size_t i = 0; i < kOffered; ++i) base[kDepth * 2 * kSlot + i] = std::byte{0x42};
  auto id = *device->Resolve(*channel, address);
  auto pair = *id->CreateQueuePair(*domain, {.send_queue = queue.get(),
                                             .receive_queue = queue.get(),
                                             .send_depth = kDepth,
                                             .receive_depth = kDepth,
                                             .max_inline = 0});
  const auto receive = [&](uint64_t slot) {
    const ReceiveRequest request{slot, {base + slot * kSlot, kSlot, region->lkey()}};
    size_t posted = 0;
    if (!pair->PostReceive(std::span(&request, 1), posted).ok()) Fail("receive");
  };
  for (uint64_t slot = 0; slot < kDepth; ++slot) receive(slot);
  const Offer offer{reinterpret_cast<uintptr_t>(base + kDepth * 2 * kSlot), region->rkey()};
  if (!id->Connect({.private_data = std::as_bytes(std::span(&offer, 1))}).ok()) Fail("connect");
  for (;;) {
    while (const auto event = channel->Next()) {
      if (event->kind == ConnectionEvent::Kind::kDisconnected) return 0;
      if (event->kind == ConnectionEvent::Kind::kUnreachable) Fail("unreachable");
    }
    Completion completion;
    if (queue->Poll(std::span(&completion, 1)) == 0) {
      std::this_thread::yield();
      continue;
    }
    if (completion.status != CompletionStatus::kSuccess) continue;  // the end comes as an event
    if (completion.opcode != Opcode::kReceive) continue;
    // Sent from where it was received; the echo has left that memory when PostSend returns, or
    // waits: then it is one slot of the other half.
    std::byte* copy = base + (kDepth + completion.wr_id) * kSlot;
    std::copy_n(base + completion.wr_id * kSlot, completion.bytes, copy);
    SendRequest echo;
    echo.sge_count = 1;
    echo.sges[0] = {copy, completion.bytes, region->lkey()};
    receive(completion.wr_id);
    size_t posted = 0;
    while (pair->PostSend(std::span(&echo, 1), posted).code() ==
           absl::StatusCode::kResourceExhausted) {
      Completion done;
      if (queue->Poll(std::span(&done, 1)) == 1 && done.opcode == Opcode::kReceive) Fail("depth");
    }
  }
}

}  // namespace
}  // namespace farcall::softnic

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return farcall::softnic::Main(argv[1], argv[2]);
}
