// What `farcall doctor` makes of machines that are made up.

#include "farcall/services/cli/judge.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "farcall/services/cli/report.h"

namespace farcall::cli {
namespace {

using Catch::Matchers::Contains;
using Level = Finding::Level;

// A machine on which rdma:// works, over Soft-RoCE.
Facts Healthy() {
  Facts facts;
  facts.cpus = 8;
  facts.spins = true;
  for (const char* name : {"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "rdma_rxe"}) {
    facts.modules.push_back({name, KernelModule::State::kLoaded});
  }
  facts.device_files = {{"/dev/infiniband/rdma_cm", true}, {"/dev/infiniband/uverbs0", true}};
  facts.kernel_adapters = {"rxe0"};
  facts.interfaces = {{"lo", true, false, 65536}, {"eth0", true, true, 9000}};
  verbs::PortSurvey port{.number = 1,
                         .state = "active",
                         .active = true,
                         .link_layer = "Ethernet",
                         .active_mtu = 4096,
                         .max_mtu = 4096,
                         .gids = {{0, "fe80::1", "RoCE v1", "eth0"},
                                  {1, "fe80::1", "RoCE v2", "eth0"},
                                  {2, "198.51.100.1", "RoCE v1", "eth0"},
                                  {3, "198.51.100.1", "RoCE v2", "eth0"},
                                  {4, "203.0.113.9", "RoCE v2", "eth0"}}};
  verbs::AdapterSurvey adapter;
  adapter.name = "rxe0";
  adapter.transport = "InfiniBand";
  adapter.ports = {port};
  facts.adapters = {adapter};
  facts.shm_folder = "/run/user/1000/farcall";
  return facts;
}

Facts WithoutAdapter() {
  Facts facts = Healthy();
  facts.modules.clear();
  facts.device_files.clear();
  facts.kernel_adapters.clear();
  facts.adapters.clear();
  facts.rdma = absl::UnavailableError("this machine has no RDMA adapter");
  return facts;
}

Finding Find(const Facts& facts, const std::string& topic, std::string_view scheme = "") {
  for (const Finding& finding : Judge(facts, scheme)) {
    if (finding.topic == topic) return finding;
  }
  FAIL("no finding about " << topic);
  return {};
}

size_t Problems(const Facts& facts, std::string_view scheme = "") {
  const std::vector<Finding> findings = Judge(facts, scheme);
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [](const Finding& each) { return each.level == Level::kProblem; }));
}

TEST_CASE("a machine on which all is well") {
  for (const Finding& finding : Judge(Healthy(), "")) {
    INFO(finding.topic << ": " << finding.text);
    CHECK(finding.level == Level::kOk);
    CHECK(finding.remedy.empty());
  }
}

TEST_CASE("no adapter: what to do depends on what the kernel has") {
  Facts facts = WithoutAdapter();
  CHECK(Find(facts, "adapters").level == Level::kProblem);
  CHECK_THAT(Find(facts, "adapters").remedy, Contains("run.sh --device rxe --shell"));

  facts.modules = {{"rdma_rxe", KernelModule::State::kAvailable}};
  CHECK_THAT(Find(facts, "adapters").remedy,
             Contains("modprobe rdma_rxe") && Contains("rdma link add rxe0 type rxe netdev eth0"));

  facts.modules = {{"siw", KernelModule::State::kAvailable}};
  CHECK_THAT(Find(facts, "adapters").remedy, Contains("rdma link add siw0 type siw netdev eth0"));

  facts.interfaces[1].up = false;
  CHECK_THAT(Find(facts, "adapters").remedy, Contains("netdev INTERFACE"));
}

TEST_CASE("what rdma:// lacks does not stand in the way of other addresses") {
  CHECK(Problems(WithoutAdapter()) > 0);
  CHECK(Problems(WithoutAdapter(), "rdma") > 0);
  for (const char* scheme : {"tcp", "unix", "shm", "auto"}) {
    CHECK(Problems(WithoutAdapter(), scheme) == 0);
    CHECK(Find(WithoutAdapter(), "adapters", scheme).level == Level::kNote);
  }
}

TEST_CASE("an adapter of the kernel's that libibverbs does not know") {
  Facts facts = WithoutAdapter();
  facts.kernel_adapters = {"mlx5_0"};
  facts.modules = {{"ib_uverbs", KernelModule::State::kLoaded}};
  CHECK_THAT(Find(facts, "adapters").text, Contains("mlx5_0"));
  CHECK(Find(facts, "adapters").remedy == "apt install ibverbs-providers");
  facts.modules = {{"ib_uverbs", KernelModule::State::kAvailable}};
  CHECK_THAT(Find(facts, "adapters").remedy, Contains("modprobe ib_uverbs"));
}

TEST_CASE("the connection manager, and who may open it") {
  Facts facts = Healthy();
  facts.modules[3].state = KernelModule::State::kAvailable;
  CHECK(Find(facts, "rdma_cm").level == Level::kProblem);
  CHECK(Find(facts, "rdma_cm").remedy == "as root: modprobe rdma_ucm");

  facts = Healthy();
  facts.device_files[1].usable = false;
  CHECK_THAT(Find(facts, "permission").text,
             Contains("/dev/infiniband/uverbs0") && !Contains("rdma_cm"));

  facts = Healthy();
  facts.adapters[0].opens = absl::PermissionDeniedError("opening the adapter: Permission denied");
  CHECK_THAT(Find(facts, "adapters").text, Contains("rxe0") && Contains("Permission denied"));
}

TEST_CASE("a port that is down") {
  Facts facts = Healthy();
  verbs::PortSurvey& port = facts.adapters[0].ports[0];
  port.active = false;
  port.state = "down";
  facts.rdma = absl::UnavailableError("no RDMA adapter has an active port");
  CHECK(Find(facts, "port").level == Level::kProblem);
  CHECK_THAT(Find(facts, "port").remedy, Contains("ip link set eth0 up"));

  // Beside another one that is up it is worth a note.
  facts.rdma = absl::OkStatus();
  CHECK(Find(facts, "port").level == Level::kNote);

  port.link_layer = "InfiniBand";
  port.state = "init";
  CHECK_THAT(Find(facts, "port").remedy, Contains("opensm"));
}

TEST_CASE("a small path MTU is worth a note, on RoCE alone") {
  Facts facts = Healthy();
  facts.adapters[0].ports[0].active_mtu = 1024;
  CHECK(Find(facts, "port").level == Level::kNote);
  CHECK_THAT(Find(facts, "port").remedy, Contains("mtu 4200"));
  facts.adapters[0].transport = "iWARP";
  CHECK(Find(facts, "port").level == Level::kOk);
}

TEST_CASE("the GID that is used") {
  const verbs::AdapterSurvey adapter = Healthy().adapters[0];
  verbs::PortSurvey port = adapter.ports[0];
  const auto index = [&](std::string_view source) {
    const std::optional<GidChoice> choice = ChooseGid(adapter, port, source);
    REQUIRE(choice.has_value());
    CHECK(!choice->why.empty());
    return port.gids[choice->place].index;
  };
  CHECK(index("") == 3);             // IPv4 before IPv6, v2 before v1
  CHECK(index("203.0.113.9") == 4);  // the route decides
  CHECK(index("198.51.100.1") == 3);
  CHECK(index("192.0.2.77") == 3);  // of another interface
  port.gids.resize(2);
  CHECK(index("") == 1);
  port.gids.resize(1);
  CHECK(index("") == 0);

  port.link_layer = "InfiniBand";
  CHECK(index("") == 0);
  port.gids.clear();
  CHECK(!ChooseGid(adapter, port, "").has_value());
  Facts facts = Healthy();
  facts.adapters[0].ports[0].gids.clear();
  CHECK(Find(facts, "GID").level == Level::kProblem);
  CHECK_THAT(Find(facts, "GID").remedy, Contains("ip address add"));
}

TEST_CASE("iWARP has no use for a GID") {
  Facts facts = Healthy();
  facts.adapters[0].transport = "iWARP";
  for (const Finding& finding : Judge(facts, "")) CHECK(finding.topic != "GID");
}

TEST_CASE("memory that may be locked") {
  Facts facts = Healthy();
  facts.memlock = {64 << 10, 64 << 10};
  CHECK(Find(facts, "memlock").level == Level::kProblem);
  CHECK_THAT(Find(facts, "memlock").text, Contains("65536 bytes"));
  CHECK_THAT(Find(facts, "memlock").remedy, Contains("as root: ulimit -l unlimited") &&
                                                Contains("LimitMEMLOCK") &&
                                                Contains("limits.conf"));
  CHECK(Find(facts, "memlock", "tcp").level == Level::kNote);

  facts.memlock.hard = kUnlimited;
  CHECK_THAT(Find(facts, "memlock").remedy, !Contains("as root"));
  facts.memlock.soft = 64 << 20;
  CHECK(Find(facts, "memlock").level == Level::kNote);
  facts.memlock.soft = 64 << 10;
  facts.ignores_memlock = true;
  CHECK(Find(facts, "memlock").level == Level::kOk);
  CHECK_THAT(Find(facts, "memlock").text, Contains("CAP_IPC_LOCK"));
}

TEST_CASE("files, shared memory and progress") {
  Facts facts = Healthy();
  facts.open_files = {1024, 1 << 20};
  CHECK(Find(facts, "open files").level == Level::kNote);
  CHECK(Find(facts, "open files").remedy == "ulimit -n 1048576");

  for (int i = 0; i < 20; ++i) facts.shm_listeners.push_back("name" + std::to_string(i));
  CHECK_THAT(Find(facts, "shm://").text, Contains("name7, 12 more"));
  facts.shm = absl::PermissionDeniedError("not a folder of this user");
  CHECK(Find(facts, "shm://", "shm").level == Level::kProblem);
  CHECK(Find(facts, "shm://", "tcp").level == Level::kNote);

  facts.cpus = 1;
  facts.spins = false;
  CHECK_THAT(Find(facts, "progress").text, Contains("1 CPU:") && Contains("sleep at once"));
}

TEST_CASE("all is well when nothing stands in the way and every step passed") {
  Report report{.facts = Healthy(), .findings = Judge(Healthy(), ""), .address = "", .steps = {}};
  CHECK(AllWell(report));
  report.steps = {{"connect", true, "", 1}};
  CHECK(AllWell(report));
  report.steps.push_back({"HELLO", false, "no answer", 0});
  CHECK(!AllWell(report));
  report.steps.clear();
  report.findings = Judge(WithoutAdapter(), "");
  CHECK(!AllWell(report));
  report.findings = Judge(WithoutAdapter(), "tcp");
  CHECK(AllWell(report));
}

TEST_CASE("the report shows findings with their remedies, and the steps") {
  Report report{.facts = WithoutAdapter(),
                .findings = Judge(WithoutAdapter(), ""),
                .address = "tcp://192.0.2.1:7000",
                .steps = {{"connect", true, "to tcp://192.0.2.1:7000", 324.56},
                          {"HELLO", false, "no \"answer\"\n", 0}}};
  const std::string text = AsText(report);
  CHECK_THAT(text, Contains("PROBLEM  adapters    this machine has no RDMA adapter\n"
                            "                     -> with an adapter"));
  CHECK_THAT(text, Contains("ok       connect     324.6 us: to tcp://192.0.2.1:7000\n"));
  CHECK_THAT(AsJson(report), Contains(R"("text": "no \"answer\"\u000a")") &&
                                 Contains(R"("memlock": {"soft": null, "hard": null})"));
}

}  // namespace
}  // namespace farcall::cli
