// Two connected queue pairs in one process, and verbs to drive them.

#ifndef FARCALL_TESTS_TRANSPORTS_RDMA_ENDS_H_
#define FARCALL_TESTS_TRANSPORTS_RDMA_ENDS_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "farcall/transports/rdma/device.h"

namespace farcall::rdma::testing {

struct EndOptions {
  uint32_t send_depth = 64;
  uint32_t receive_depth = 64;
  uint32_t completion_depth = 1024;
  uint32_t max_inline = 64;
  uint8_t rnr_retry = 0;
  size_t memory = size_t{1} << 20;
};

// What one side has: everything that a queue pair needs, and `region`, memory to send from, to
// receive into and to READ into, which its peer may READ, too.
class End {
 public:
  End(Device& device, EndOptions options);

  // ---- making the queue pair, and posting; all of these require success ----
  void MakePair(std::unique_ptr<ConnectionId> connection);
  void Receive(uint64_t wr_id, size_t offset, uint32_t bytes);
  void Send(uint64_t wr_id, size_t offset, uint32_t bytes, bool signaled = true);
  void Read(uint64_t wr_id, size_t offset, uint32_t bytes, uint64_t address, uint32_t rkey);
  // Not required to succeed.
  absl::Status Post(const SendRequest& request);
  absl::Status Post(const ReceiveRequest& request);

  Sge At(size_t offset, uint32_t bytes) const;
  std::byte* memory(size_t offset = 0) const { return region->memory().data() + offset; }
  uint64_t address(size_t offset = 0) const { return reinterpret_cast<uintptr_t>(memory(offset)); }
  void Fill(size_t offset, size_t bytes, uint32_t seed);
  bool Holds(size_t offset, size_t bytes, uint32_t seed) const;

  // Takes what completed and what happened.
  void Turn();
  // The oldest completion or event not asked for yet; turns this end and `other` until there is
  // one. Fails the test after ten seconds.
  Completion NextCompletion(End& other);
  ConnectionEvent NextEvent(End& other);

  const EndOptions options;
  std::unique_ptr<ProtectionDomain> domain;
  std::unique_ptr<CompletionQueue> queue;
  std::unique_ptr<EventChannel> channel;
  std::unique_ptr<MemoryRegion> region;
  std::unique_ptr<ConnectionId> id;
  std::unique_ptr<QueuePair> pair;
  std::deque<Completion> completions;
  std::deque<ConnectionEvent> events;
};

// Two ends of a device, connected: `active` has connected to `passive`.
class Pair {
 public:
  explicit Pair(Device& device, const std::string& address, EndOptions active = {},
                EndOptions passive = {});

  // Nothing completes and nothing happens in the next turns of both.
  bool Quiet();

  End active, passive;
};

// Turns both until `done`, for ten seconds at most; false then.
bool TurnUntil(End& one, End& other, const std::function<bool()>& done);
std::span<const std::byte> Bytes(std::string_view text);
// Without the zeros that a connection manager may put behind private data.
std::string Text(const std::vector<std::byte>& bytes);

}  // namespace farcall::rdma::testing

#endif  // FARCALL_TESTS_TRANSPORTS_RDMA_ENDS_H_
