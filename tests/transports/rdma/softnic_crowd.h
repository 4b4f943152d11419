// Many connections of the software NIC, both sides in this process, each side on one queue.

#ifndef FARCALL_TESTS_TRANSPORTS_RDMA_SOFTNIC_CROWD_H_
#define FARCALL_TESTS_TRANSPORTS_RDMA_SOFTNIC_CROWD_H_

#include <poll.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/softnic_testing.h"

namespace farcall::softnic::testing {

inline constexpr uint32_t kDepth = 4;
inline constexpr uint32_t kBytes = 64;

// As REQUIRE, which is for one thread only.
inline void Must(bool holds) {
  if (!holds) std::abort();
}

struct Connection {
  std::unique_ptr<rdma::ProtectionDomain> domain;
  std::unique_ptr<rdma::MemoryRegion> region;
  std::unique_ptr<rdma::ConnectionId> id;
  std::unique_ptr<rdma::QueuePair> pair;
};

struct CrowdOptions {
  size_t connections = 0;
  uint32_t send_depth = kDepth, receive_depth = kDepth;
  uint32_t eager = kBytes;  // of each receive
  uint32_t completion_depth = uint32_t{1} << 20;
  uint8_t rnr_retry = 0;
  bool receives = true;
  FaultPlan faults = {};
};

// One side: all its connections complete on one queue.
struct Side {
  Side(rdma::Device& device, const CrowdOptions& its)
      : options(its),
        queue(*device.CreateCompletionQueue(its.completion_depth)),
        channel(*device.CreateEventChannel()) {}

  void Add(rdma::Device& device, std::unique_ptr<rdma::ConnectionId> id) {
    Connection made;
    made.domain = *device.CreateProtectionDomain();
    made.region = *made.domain->Allocate(size_t{options.receive_depth} * options.eager,
                                         {.local_write = true});
    made.id = std::move(id);
    made.pair = *made.id->CreateQueuePair(*made.domain, {.send_queue = queue.get(),
                                                         .receive_queue = queue.get(),
                                                         .send_depth = options.send_depth,
                                                         .receive_depth = options.receive_depth,
                                                         .max_inline = 240});
    connections.push_back(std::move(made));
    for (uint32_t i = 0; options.receives && i < options.receive_depth; ++i) {
      Receive(connections.size() - 1, i);
    }
  }
  // wr_id names the connection and the slot.
  void Receive(size_t connection, uint32_t slot) {
    const Connection& its = connections[connection];
    const rdma::ReceiveRequest request{connection << 32 | slot,
                                       {its.region->memory().data() + size_t{slot} * options.eager,
                                        options.eager, its.region->lkey()}};
    size_t posted = 0;
    Must(its.pair->PostReceive(std::span(&request, 1), posted).ok());
  }
  void Send(size_t connection, uint32_t bytes) {
    const Connection& its = connections[connection];
    rdma::SendRequest request;
    request.wr_id = connection << 32;
    request.sge_count = 1;
    request.sges[0] = {its.region->memory().data(), bytes, its.region->lkey()};
    size_t posted = 0;
    Must(its.pair->PostSend(std::span(&request, 1), posted).ok());
  }
  rdma::ConnectionEvent Await(rdma::ConnectionEvent::Kind kind) {
    for (;;) {
      if (std::optional<rdma::ConnectionEvent> event = channel->Next()) {
        REQUIRE(event->kind == kind);
        return *std::move(event);
      }
    }
  }
  // Takes completions, posts again what was received, and counts it.
  size_t Turn() {
    rdma::Completion done[64];
    size_t received = 0;
    const size_t count = queue->Poll(done);
    for (const rdma::Completion& completion : std::span(done, count)) {
      Must(completion.status == rdma::CompletionStatus::kSuccess);
      if (completion.opcode != rdma::Opcode::kReceive) continue;
      ++received;
      last = completion.wr_id >> 32;
      Receive(completion.wr_id >> 32, static_cast<uint32_t>(completion.wr_id));
    }
    return received;
  }

  const CrowdOptions options;
  std::unique_ptr<rdma::CompletionQueue> queue;
  std::unique_ptr<rdma::EventChannel> channel;
  std::vector<Connection> connections;
  size_t last = 0;  // the connection of the last message
};

class Crowd {
 public:
  explicit Crowd(const CrowdOptions& options)
      : device_(Make({.runtime_folder = folder_.path(), .faults = options.faults})),
        active(*device_, options),
        passive(*device_, options) {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    listener_ = *device_->Listen(*passive.channel, "crowd");
    while (active.connections.size() < options.connections) Connect();
  }
  void Connect() {
    std::unique_ptr<rdma::ConnectionId> id = *device_->Resolve(*active.channel, "crowd");
    active.Await(rdma::ConnectionEvent::Kind::kResolved);
    active.Add(*device_, std::move(id));
    REQUIRE(active.connections.back().id->Connect({.rnr_retry = active.options.rnr_retry}).ok());
    passive.Add(*device_,
                std::move(passive.Await(rdma::ConnectionEvent::Kind::kConnectRequest).request));
    REQUIRE(passive.connections.back().id->Accept({.rnr_retry = passive.options.rnr_retry}).ok());
    active.Await(rdma::ConnectionEvent::Kind::kEstablished);
    passive.Await(rdma::ConnectionEvent::Kind::kEstablished);
  }

 private:
  const Folder folder_;
  const std::shared_ptr<rdma::Device> device_;
  std::unique_ptr<rdma::AddressListener> listener_;

 public:
  Side active, passive;
};

inline bool Readable(int fd, int timeout_ms) {
  pollfd ready{fd, POLLIN, 0};
  return ::poll(&ready, 1, timeout_ms) > 0;
}

}  // namespace farcall::softnic::testing

#endif  // FARCALL_TESTS_TRANSPORTS_RDMA_SOFTNIC_CROWD_H_
