#include "farcall/transports/rdma/shm.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/measure.h"
#include "farcall/transports/rdma/settings.h"
#include "farcall/transports/rdma/softnic/runtime_folder.h"

namespace farcall {
namespace {

constexpr char kScheme[] = "shm";
constexpr size_t kMaxName = 64;  // as the software NIC has it

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxName && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                  c == '.';
         });
}

}  // namespace

std::shared_ptr<Transport> MakeShmTransport(ShmOptions options) {
  return MakeRdmaTransport(
      kScheme, [device = std::move(options.device)] { return softnic::MakeSoftnicDevice(device); },
      options.rdma);
}

absl::StatusOr<uint32_t> MeasureShmThreshold(const ShmOptions& options, Duration at_most) {
  static std::atomic<uint64_t> names{0};
  const Endpoint at{.scheme = kScheme,
                    .host = {},
                    .port = 0,
                    .path = absl::StrCat("threshold-", ::getpid(), "-", ++names)};
  return MeasureThreshold(
      at, [&] { return softnic::MakeSoftnicDevice(options.device); }, options.rdma, at_most);
}

absl::Status CheckShmEndpoint(const Endpoint& endpoint) {
  absl::Status status = rdma::CheckScheme(endpoint, kScheme);
  if (!status.ok() || IsName(endpoint.path)) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(endpoint.ToString(), ": a name is 1 to ", kMaxName,
                   " letters, digits, '-', '_' and '.', and does not begin with '.'"));
}

absl::StatusOr<std::string> ShmFolder(const ShmOptions& options) {
  absl::StatusOr<std::string> path = softnic::SocketPath(options.device.runtime_folder, "name");
  if (!path.ok()) return path.status();
  return path->substr(0, path->rfind('/'));
}

}  // namespace farcall
