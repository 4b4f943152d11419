// A peer of the engine by hand: its device is an honest one, its program says what it likes. It is
// a client or a server, and drives whatever it attacks while it waits.

#ifndef FARCALL_TESTS_TRANSPORTS_RDMA_ROGUE_H_
#define FARCALL_TESTS_TRANSPORTS_RDMA_ROGUE_H_

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/engine_testing.h"
#include "farcall/transports/rdma/envelope.h"

namespace farcall::testing {

// The name that the server of `client` listens at.
std::string NameOf(Peer& client);

class Rogue {
 public:
  // `runtime_folder`: as SoftnicOptions have it.
  explicit Rogue(Arena& arena, const std::string& runtime_folder = {});
  ~Rogue();

  // ---- the handshake ----
  // As a client: asks for a connection and awaits nothing.
  void Connect(const std::string& name, std::span<const std::byte> private_data,
               uint32_t serves_reads = 16);
  void Connect(const std::string& name);
  // As a server: listens; takes the next request and answers it.
  Endpoint Listen();
  void Answer(std::span<const std::byte> private_data);
  // The next event, which is of this kind.
  rdma::ConnectionEvent Await(rdma::ConnectionEvent::Kind kind);

  // ---- saying ----
  // A SEND: the envelope, then `rest`, the bytes behind it (and behind the offer of an RTS). The
  // count of reposts is the true one. Nobody is driven.
  void Say(rdma::Envelope envelope, std::string_view rest = {});
  // The same with a count of its own.
  void SayReposts(uint32_t reposts);
  void SayBytes(std::span<const std::byte> bytes);
  // An envelope's bytes, to be bent, and the true count in them.
  std::vector<std::byte> Bytes(rdma::Envelope envelope) const;
  // An RTS for `bytes` of this side's memory.
  rdma::Envelope Offer(uint32_t transfer, uint64_t bytes) const;
  // How many SENDs the device has not seen taken by the peer.
  size_t unfinished_sends() const { return unfinished_; }

  // ---- hearing ----
  // The next SEND of this kind; what comes before it is passed over.
  rdma::Envelope Hear(rdma::Kind kind);
  size_t heard() const { return heard_.size(); }  // SENDs that nobody asked for yet
  // Reads so much of the peer's memory: how that ended.
  rdma::CompletionStatus Read(uint64_t address, uint32_t rkey, uint32_t bytes);
  // What the last Read brought.
  std::span<const std::byte> loot(size_t bytes) const;

  // Takes what came. Without it this side never reads.
  void Turn();
  bool RunUntil(const std::function<bool()>& done);
  bool gone() const { return gone_; }

  bool reposts = true;  // false: receives are not posted again

 private:
  Arena& arena_;
  const std::shared_ptr<rdma::Device> device_;

 public:
  rdma::testing::End end;

 private:
  void Ready(std::unique_ptr<rdma::ConnectionId> id);
  void OnCompletion(const rdma::Completion& completion);

  std::unique_ptr<rdma::AddressListener> listener_;
  size_t sent_ = 0;
  size_t unfinished_ = 0;
  uint32_t reposted_ = 0;
  std::optional<rdma::CompletionStatus> read_;
  std::deque<rdma::Envelope> heard_;
  bool gone_ = false;
};

// Makes a connection of the rogue's and returns the engine's end of it, started: of the server that
// `healthy` is connected to, or else of a client that comes to the rogue.
Peer& Meet(Arena& arena, Peer& healthy, Rogue& rogue, bool rogue_is_client = true);

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_TRANSPORTS_RDMA_ROGUE_H_
