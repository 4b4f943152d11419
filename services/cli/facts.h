// What `farcall doctor` knows of this machine: plain data, gathered once (gather.h) and judged by
// functions that look at nothing else (judge.h).

#ifndef FARCALL_SERVICES_CLI_FACTS_H_
#define FARCALL_SERVICES_CLI_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "farcall/transports/rdma/verbs/survey.h"

namespace farcall::cli {

inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

struct Limit {
  uint64_t soft = kUnlimited, hard = kUnlimited;
};

struct KernelModule {
  enum class State { kLoaded, kAvailable, kAbsent };  // loaded: or built into the kernel
  std::string name;
  State state = State::kAbsent;
};

struct DeviceFile {
  std::string path;
  bool usable = false;  // this process may open it for reading and writing
};

struct NetworkInterface {
  std::string name;
  bool up = false;
  bool ethernet = false;
  uint32_t mtu = 0;  // bytes
};

struct Facts {
  std::string farcall;    // versions
  std::string rdma_core;  // of the library in use; empty: unknown
  std::string kernel;

  size_t cpus = 1;
  bool spins = false;  // the default progress mode does, before it sleeps

  std::vector<KernelModule> modules;
  std::vector<DeviceFile> device_files;      // below /dev/infiniband
  std::vector<std::string> kernel_adapters;  // that the kernel has, with a user-space driver or not
  std::vector<verbs::AdapterSurvey> adapters;
  absl::Status rdma;  // why rdma:// cannot be used here, in the transport's own words
  std::vector<NetworkInterface> interfaces;

  Limit memlock;                 // bytes that this process may lock
  bool ignores_memlock = false;  // CAP_IPC_LOCK
  Limit open_files;

  std::string shm_folder;
  absl::Status shm;                        // why shm:// cannot be used
  std::vector<std::string> shm_listeners;  // names

  // With an address of a host: this machine's own on the way there. Empty: unknown.
  std::string source_address;
};

}  // namespace farcall::cli

#endif  // FARCALL_SERVICES_CLI_FACTS_H_
