#include "farcall/services/cli/judge.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farcall::cli {
namespace {

using Level = Finding::Level;

// One connection with the default options registers its receive buffers (80 of 8 KiB, and a
// quarter more) and its first slab to send from: some 2 MiB. Below it none comes to be.
constexpr uint64_t kLeastMemlock = uint64_t{4} << 20;
// For payloads and some connections at once.
constexpr uint64_t kGoodMemlock = uint64_t{1} << 30;
// A connection over adapters takes up to two descriptors beside those of its loop.
constexpr uint64_t kGoodOpenFiles = 4096;
// RoCE takes the largest path MTU, 4096, only over such interfaces; its headers are below 100.
constexpr uint32_t kLargestMtu = 4096;
constexpr uint32_t kMtuForLargest = 4200;

constexpr size_t kNamesShown = 8;

// What has to be there for rdma:// is a problem only for who asked for it.
Level Blocking(std::string_view scheme, std::string_view of) {
  return scheme.empty() || scheme == of ? Level::kProblem : Level::kNote;
}

KernelModule::State StateOf(const Facts& facts, std::string_view name) {
  for (const KernelModule& module : facts.modules) {
    if (module.name == name) return module.state;
  }
  return KernelModule::State::kAbsent;
}
bool Loaded(const Facts& facts, std::string_view name) {
  return StateOf(facts, name) == KernelModule::State::kLoaded;
}

// Where a software adapter can be put: an Ethernet interface that is up.
const NetworkInterface* Attachable(const Facts& facts) {
  for (const NetworkInterface& each : facts.interfaces) {
    if (each.ethernet && each.up) return &each;
  }
  return nullptr;
}

// How to get an adapter of software, as far as this kernel can.
std::string SoftwareAdapter(const Facts& facts) {
  const NetworkInterface* const interface = Attachable(facts);
  const std::string netdev = interface != nullptr ? interface->name : "INTERFACE";
  const bool rxe = StateOf(facts, "rdma_rxe") != KernelModule::State::kAbsent;
  const bool siw = StateOf(facts, "siw") != KernelModule::State::kAbsent;
  if (!rxe && !siw) {
    return "this kernel has no software adapter (rdma_rxe, siw); "
           "'sh tests/guest/run.sh --device rxe --shell' boots one that has, in QEMU";
  }
  const std::string module = rxe ? "rdma_rxe" : "siw";
  const std::string name = rxe ? "rxe" : "siw";
  return absl::StrCat("one in software, as root: apt install rdma-core iproute2; modprobe ", module,
                      " rdma_ucm; rdma link add ", name, "0 type ", name, " netdev ", netdev);
}

Finding NoAdapter(const Facts& facts, Level level) {
  if (!facts.kernel_adapters.empty()) {
    return {level, "adapters",
            absl::StrCat("the kernel has ", absl::StrJoin(facts.kernel_adapters, ", "),
                         ", and libibverbs none: ",
                         Loaded(facts, "ib_uverbs") ? "their user-space driver is missing"
                                                    : "the module ib_uverbs is not loaded"),
            Loaded(facts, "ib_uverbs") ? "apt install ibverbs-providers"
                                       : "as root: modprobe ib_uverbs"};
  }
  return {level, "adapters", "this machine has no RDMA adapter",
          absl::StrCat("with an adapter: load its kernel driver (lspci -k names it; mlx5_ib for "
                       "ConnectX). Without: ",
                       SoftwareAdapter(facts), ". Until then: tcp:// across hosts, shm:// on one")};
}

std::string PortText(const verbs::AdapterSurvey& adapter, const verbs::PortSurvey& port) {
  return absl::StrCat(adapter.name, " port ", port.number);
}

Finding PortDown(const verbs::AdapterSurvey& adapter, const verbs::PortSurvey& port, Level level) {
  std::string interface;
  for (const verbs::GidSurvey& gid : port.gids) {
    if (!gid.interface.empty()) interface = gid.interface;
  }
  std::string remedy = "look at the cable and the switch; 'rdma link' shows the physical state";
  if (interface.empty() && port.link_layer == "Ethernet") interface = "INTERFACE";
  if (port.link_layer == "InfiniBand" && port.state == "init") {
    remedy = "a subnet manager has to run somewhere on the fabric (apt install opensm)";
  } else if (!interface.empty()) {
    remedy = absl::StrCat("as root: ip link set ", interface, " up; ", remedy, " and interface");
  }
  return {level, "port", absl::StrCat(PortText(adapter, port), " is ", port.state), remedy};
}

Finding PortUp(const verbs::AdapterSurvey& adapter, const verbs::PortSurvey& port) {
  Finding finding{Level::kOk, "port",
                  absl::StrCat(PortText(adapter, port), " is active: ", port.link_layer, ", MTU ",
                               port.active_mtu),
                  ""};
  if (adapter.transport == "iWARP" || port.link_layer != "Ethernet") return finding;
  if (port.active_mtu >= std::min(port.max_mtu, kLargestMtu)) return finding;
  finding.level = Level::kNote;
  absl::StrAppend(&finding.text, " of ", port.max_mtu);
  finding.remedy = absl::StrCat("larger packets are faster: ip link set INTERFACE mtu ",
                                kMtuForLargest, " or more, on both hosts and the switch between");
  return finding;
}

Finding GidOf(const verbs::AdapterSurvey& adapter, const verbs::PortSurvey& port,
              std::string_view source_address, Level level) {
  const std::optional<GidChoice> choice = ChooseGid(adapter, port, source_address);
  if (choice.has_value()) {
    const verbs::GidSurvey& gid = port.gids[choice->place];
    return {Level::kOk, "GID",
            absl::StrCat(PortText(adapter, port), ": index ", gid.index, " of ", port.gids.size(),
                         ", ", gid.address, " (", gid.type,
                         gid.interface.empty() ? "" : absl::StrCat(", ", gid.interface),
                         "), because ", choice->why),
            ""};
  }
  return {level, "GID", absl::StrCat(PortText(adapter, port), " has no GID"),
          "its interface has no address yet: ip address add ADDRESS/24 dev INTERFACE"};
}

void JudgeAdapter(const Facts& facts, const verbs::AdapterSurvey& adapter, Level level,
                  std::vector<Finding>& findings) {
  if (!adapter.opens.ok()) {
    findings.push_back({level, "adapters",
                        absl::StrCat(adapter.name, ": ", adapter.opens.message()),
                        "ls -l /dev/infiniband says who may use it"});
    return;
  }
  findings.push_back({Level::kOk, "adapters",
                      absl::StrCat(adapter.name, ": ", adapter.transport, ", firmware ",
                                   adapter.firmware.empty() ? "none" : adapter.firmware, ", ",
                                   adapter.max_queue_pairs, " queue pairs, ",
                                   adapter.windows ? "memory windows" : "no memory windows"),
                      ""});
  for (const verbs::PortSurvey& port : adapter.ports) {
    if (!port.active) {
      // Other ports may do.
      findings.push_back(PortDown(adapter, port, facts.rdma.ok() ? Level::kNote : level));
      continue;
    }
    findings.push_back(PortUp(adapter, port));
    // iWARP's packets are TCP's, and it has no use for GIDs.
    if (adapter.transport == "iWARP") continue;
    findings.push_back(GidOf(adapter, port, facts.source_address, level));
  }
}

void JudgeRdma(const Facts& facts, std::string_view scheme, std::vector<Finding>& findings) {
  const Level level = Blocking(scheme, "rdma");
  if (facts.rdma.ok()) {
    findings.push_back({Level::kOk, "rdma://", "can be used", ""});
  } else {
    findings.push_back({level, "rdma://", std::string(facts.rdma.message()), "see what follows"});
  }
  if (facts.adapters.empty()) findings.push_back(NoAdapter(facts, level));
  for (const verbs::AdapterSurvey& adapter : facts.adapters) {
    JudgeAdapter(facts, adapter, level, findings);
  }
  // Without an adapter they would be of no use yet.
  if (facts.adapters.empty() && facts.kernel_adapters.empty()) return;
  if (!Loaded(facts, "rdma_ucm")) {
    findings.push_back({level, "rdma_cm", "the kernel's connection manager is not loaded",
                        "as root: modprobe rdma_ucm"});
  }
  std::vector<std::string> closed;
  for (const DeviceFile& file : facts.device_files) {
    if (!file.usable) closed.push_back(file.path);
  }
  if (!closed.empty()) {
    findings.push_back({level, "permission",
                        absl::StrCat("this user may not open ", absl::StrJoin(closed, ", ")),
                        "the udev rules of rdma-core let everybody; otherwise add the user to the "
                        "group that 'ls -l /dev/infiniband' shows"});
  }
}

std::string Text(uint64_t limit) { return limit == kUnlimited ? "unlimited" : absl::StrCat(limit); }

Finding JudgeMemlock(const Facts& facts, std::string_view scheme) {
  Finding finding{Level::kOk, "memlock", Text(facts.memlock.soft), ""};
  if (facts.memlock.soft != kUnlimited) finding.text += " bytes";
  if (facts.ignores_memlock) {
    finding.text += ", and does not apply to this process (CAP_IPC_LOCK)";
    return finding;
  }
  if (facts.memlock.soft >= kGoodMemlock) return finding;
  const bool few = facts.memlock.soft < kLeastMemlock;
  const bool useful = !facts.adapters.empty();
  finding.level = few && useful ? Blocking(scheme, "rdma") : Level::kNote;
  absl::StrAppend(&finding.text, few ? ": not enough for one connection over an adapter"
                                     : ": enough for few connections over an adapter");
  finding.remedy = absl::StrCat(
      facts.memlock.hard == kUnlimited ? "ulimit -l unlimited" : "as root: ulimit -l unlimited",
      "; LimitMEMLOCK=infinity in a systemd unit; '* - memlock unlimited' in "
      "/etc/security/limits.conf. shm:// and tcp:// lock nothing");
  return finding;
}

Finding JudgeOpenFiles(const Facts& facts) {
  Finding finding{Level::kOk, "open files", Text(facts.open_files.soft), ""};
  if (facts.open_files.soft >= kGoodOpenFiles) return finding;
  finding.level = Level::kNote;
  finding.text += ": a server of many connections needs more";
  finding.remedy =
      absl::StrCat("ulimit -n ", Text(std::max(facts.open_files.hard, facts.open_files.soft)));
  return finding;
}

Finding JudgeShm(const Facts& facts, std::string_view scheme) {
  if (!facts.shm.ok()) {
    return {Blocking(scheme, "shm"), "shm://", std::string(facts.shm.message()),
            "a folder of this user's with mode 0700 in XDG_RUNTIME_DIR, or remove the one that is "
            "in the way"};
  }
  std::vector<std::string> names = facts.shm_listeners;
  const size_t more = names.size() - std::min(names.size(), kNamesShown);
  names.resize(names.size() - more);
  if (more > 0) names.push_back(absl::StrCat(more, " more"));
  const std::string listeners =
      names.empty() ? "nobody listens" : absl::StrCat("there listen ", absl::StrJoin(names, ", "));
  return {Level::kOk, "shm://",
          absl::StrCat("can be used between this user's processes; ", facts.shm_folder, ", ",
                       listeners),
          ""};
}

Finding JudgeProgress(const Facts& facts) {
  return {Level::kOk, "progress",
          absl::StrCat(facts.cpus, facts.cpus == 1 ? " CPU" : " CPUs", ": loops ",
                       facts.spins ? "spin for a moment and sleep then (adaptive)"
                                   : "sleep at once (adaptive, which does not spin here)",
                       " by default"),
          facts.spins ? "" : "ProgressMode::kBusy answers faster, and takes a core for each loop"};
}

}  // namespace

std::string_view ToString(Finding::Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kProblem:
      return "PROBLEM";
  }
  return "";
}

std::optional<GidChoice> ChooseGid(const verbs::AdapterSurvey& adapter,
                                   const verbs::PortSurvey& port, std::string_view source_address) {
  if (adapter.transport == "iWARP" || port.gids.empty()) return std::nullopt;
  if (port.link_layer == "InfiniBand") return GidChoice{0, "InfiniBand uses the first"};
  const auto find = [&port](auto&& wanted) -> std::optional<size_t> {
    for (const char* const type : {"RoCE v2", "RoCE v1"}) {
      for (size_t i = 0; i < port.gids.size(); ++i) {
        if (port.gids[i].type == type && wanted(port.gids[i])) return i;
      }
    }
    return std::nullopt;
  };
  if (!source_address.empty()) {
    const auto exact =
        find([&](const verbs::GidSurvey& gid) { return gid.address == source_address; });
    if (exact.has_value()) {
      return GidChoice{*exact,
                       absl::StrCat("the route there leaves by ", std::string(source_address))};
    }
  }
  const auto v4 =
      find([](const verbs::GidSurvey& gid) { return !absl::StrContains(gid.address, ':'); });
  if (v4.has_value()) {
    return GidChoice{*v4, "rdma_cm takes that of the address which a connection leaves by"};
  }
  const auto any = find([](const verbs::GidSurvey&) { return true; });
  if (!any.has_value()) return std::nullopt;
  return GidChoice{*any, "its interface has no IPv4 address"};
}

std::vector<Finding> Judge(const Facts& facts, std::string_view scheme) {
  std::vector<Finding> findings;
  JudgeRdma(facts, scheme, findings);
  findings.push_back(JudgeMemlock(facts, scheme));
  findings.push_back(JudgeShm(facts, scheme));
  findings.push_back(JudgeOpenFiles(facts));
  findings.push_back(JudgeProgress(facts));
  return findings;
}

}  // namespace farcall::cli
