#include "farcall/transports/rdma/verbs/survey.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "farcall/transports/rdma/verbs/address.h"
#include "farcall/transports/rdma/verbs/errors.h"

namespace farcall::verbs {
namespace {

// GIDs of a port that are looked at: adapters have between 1 and some thousand.
constexpr size_t kMaxGids = 256;

std::string TextOf(const ibv_gid& gid) {
  in6_addr address{};
  static_assert(sizeof address == sizeof gid.raw);
  std::copy(std::begin(gid.raw), std::end(gid.raw), address.s6_addr);
  char text[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    ::inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, &address, text, sizeof text);
  }
  return text;
}

std::string TypeOf(uint32_t type) {
  switch (type) {
    case IBV_GID_TYPE_IB:
      return "InfiniBand";
    case IBV_GID_TYPE_ROCE_V1:
      return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2:
      return "RoCE v2";
    default:
      return absl::StrCat("type ", type);
  }
}

std::string LinkLayerOf(uint8_t layer) {
  return layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
}

// "PORT_ACTIVE" -> "active"
std::string StateOf(ibv_port_state state) {
  return absl::AsciiStrToLower(absl::StripPrefix(ibv_port_state_str(state), "PORT_"));
}

// The enumeration counts from 1 for 256 bytes.
uint32_t BytesOf(ibv_mtu mtu) { return mtu == 0 ? 0 : uint32_t{128} << mtu; }

void AddGids(ibv_context* context, AdapterSurvey& survey) {
  std::vector<ibv_gid_entry> entries(kMaxGids);
  const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  if (count <= 0) return;
  for (const ibv_gid_entry& entry : std::span(entries).first(static_cast<size_t>(count))) {
    char interface[IF_NAMESIZE] = "";
    if (entry.ndev_ifindex != 0) ::if_indextoname(entry.ndev_ifindex, interface);
    for (PortSurvey& port : survey.ports) {
      if (port.number != entry.port_num) continue;
      port.gids.push_back({entry.gid_index, TextOf(entry.gid), TypeOf(entry.gid_type), interface});
    }
  }
}

absl::Status Ask(ibv_context* context, AdapterSurvey& survey) {
  ibv_device_attr has{};
  if (const int error = ibv_query_device(context, &has); error != 0) {
    return SystemError("asking the adapter", error);
  }
  survey.firmware = has.fw_ver;
  survey.max_queue_pairs = static_cast<uint32_t>(has.max_qp);
  survey.windows =
      has.max_mw > 0 &&
      (has.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0;
  for (uint8_t number = 1; number <= has.phys_port_cnt; ++number) {
    ibv_port_attr port{};
    if (ibv_query_port(context, number, &port) != 0) continue;
    survey.ports.push_back({.number = number,
                            .state = StateOf(port.state),
                            .active = port.state == IBV_PORT_ACTIVE,
                            .link_layer = LinkLayerOf(port.link_layer),
                            .active_mtu = BytesOf(port.active_mtu),
                            .max_mtu = BytesOf(port.max_mtu),
                            .gids = {}});
  }
  AddGids(context, survey);
  return absl::OkStatus();
}

AdapterSurvey SurveyOf(ibv_device* device) {
  AdapterSurvey survey;
  survey.name = ibv_get_device_name(device);
  survey.transport = device->transport_type == IBV_TRANSPORT_IWARP ? "iWARP" : "InfiniBand";
  ibv_context* const context = ibv_open_device(device);
  if (context == nullptr) {
    survey.opens = SystemError("opening the adapter", errno);
    return survey;
  }
  survey.opens = Ask(context, survey);
  ibv_close_device(context);
  return survey;
}

}  // namespace

std::vector<AdapterSurvey> SurveyAdapters() {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  std::vector<AdapterSurvey> adapters;
  if (devices == nullptr) return adapters;
  for (int i = 0; i < count; ++i) adapters.push_back(SurveyOf(devices[i]));
  ibv_free_device_list(devices);
  return adapters;
}

absl::StatusOr<std::string> SourceAddress(std::string_view host) {
  // Port 9 (discard): connecting a datagram socket looks the route up, and sends nothing.
  absl::StatusOr<SocketAddresses> found = LookUp({std::string(host), "9"});
  if (!found.ok()) return found.status();
  const sockaddr_storage& to = found->front();
  const bool v6 = to.ss_family == AF_INET6;
  const socklen_t length = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  const int socket = ::socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return SystemError("a socket to look a route up", errno);
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  const bool routed = ::connect(socket, reinterpret_cast<const sockaddr*>(&to), length) == 0 &&
                      ::getsockname(socket, reinterpret_cast<sockaddr*>(&from), &size) == 0;
  const int error = errno;
  ::close(socket);
  if (!routed) return SystemError(absl::StrCat("the route to ", std::string(host)), error);
  char text[INET6_ADDRSTRLEN] = "";
  const void* address =
      v6 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&from)->sin6_addr)
         : &reinterpret_cast<const sockaddr_in*>(&from)->sin_addr;
  ::inet_ntop(from.ss_family, address, text, sizeof text);
  return std::string(text);
}

}  // namespace farcall::verbs
