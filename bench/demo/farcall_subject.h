// Farcall as a subject: calls of the Echo service, as any client makes them.
#ifndef FARCALL_BENCH_DEMO_FARCALL_SUBJECT_H_
#define FARCALL_BENCH_DEMO_FARCALL_SUBJECT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "farcall/bench/demo/subject.h"

namespace farcall::bench {

// A transport, and which device its records name.
enum class Scheme { kTcp, kShm, kRdma };
const char* TransportOf(Scheme scheme);  // "tcp", "shm", "rdma"

// Between two processes of this host, over TCP, over the software NIC in shared memory or over an
// RDMA adapter.
class ProcessSubject : public Subject {
 public:
  // `server_program` is the path of farcall_echo_server.
  // Shared memory alone: `threshold`, unless empty, is where its payloads' way is forced to change.
  ProcessSubject(std::string server_program, Scheme scheme, Mode mode,
                 std::optional<uint32_t> threshold = std::nullopt)
      : server_program_(std::move(server_program)),
        scheme_(scheme),
        mode_(mode),
        threshold_(threshold) {}
  // Over the adapter `device`, whose interface has the IPv4 address `host`.
  ProcessSubject(std::string server_program, std::string device, std::string host, Mode mode)
      : server_program_(std::move(server_program)),
        scheme_(Scheme::kRdma),
        mode_(mode),
        adapter_(std::move(device)),
        host_(std::move(host)) {}

  std::string transport() const override { return TransportOf(scheme_); }
  std::string device() const override;
  Mode mode() const override { return mode_; }
  std::optional<uint32_t> threshold() const override { return threshold_; }
  std::string path(const Workload& workload) const override;
  bool Knows(const Workload& workload) const override { return !IsOfVerbs(workload.kind); }

  absl::StatusOr<Measurement> Run(const Workload& workload,
                                  std::optional<int> server_core) override;
  absl::StatusOr<Costs> CountOperations(const Workload& workload,
                                        std::optional<int> server_core) override;

 private:
  std::string Address() const;

  const std::string server_program_;
  const Scheme scheme_;
  const Mode mode_;
  const std::optional<uint32_t> threshold_;
  const std::string adapter_, host_;  // of kRdma
};

// To farcall_demo_server (demo/server_main.cc) on another host, or this one.
class RemoteSubject : public Subject {
 public:
  // `address`: where the server listens in this mode. `device`: as records name it.
  RemoteSubject(std::string address, Scheme scheme, std::string device, Mode mode)
      : address_(std::move(address)), scheme_(scheme), device_(std::move(device)), mode_(mode) {}

  std::string transport() const override { return TransportOf(scheme_); }
  std::string device() const override { return device_; }
  Mode mode() const override { return mode_; }
  std::string path(const Workload& workload) const override;

  // The server has the core that it was started on.
  absl::StatusOr<Measurement> Run(const Workload& workload,
                                  std::optional<int> server_core) override;

 private:
  const std::string address_;
  const Scheme scheme_;
  const std::string device_;
  const Mode mode_;
};

// Bytes of the SENDs of a small call over rdma://, request and reply on average: an echo of
// `payload_bytes` in the FlatBuffer. Makes such a call to a server at `address`; heads and payloads
// are what its connection counted, the rest is the layout of the wire (transports/rdma/envelope.h).
absl::StatusOr<size_t> WireBytesOf(const std::string& address, size_t payload_bytes);

// With no wire, between two threads of this process: messages mostly change hands by pointer. What
// is left is the cost of Farcall itself and of waking the other thread.
class LoopbackSubject : public Subject {
 public:
  explicit LoopbackSubject(Mode mode) : mode_(mode) {}

  std::string transport() const override { return "loopback"; }
  std::string device() const override { return "memory"; }
  Mode mode() const override { return mode_; }
  std::string path(const Workload& /*workload*/) const override { return "eager"; }

  absl::StatusOr<Measurement> Run(const Workload& workload,
                                  std::optional<int> server_core) override;
  absl::StatusOr<Costs> CountOperations(const Workload& workload,
                                        std::optional<int> server_core) override;

 private:
  const Mode mode_;
};

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_DEMO_FARCALL_SUBJECT_H_
