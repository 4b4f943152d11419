#include "farcall/bench/measure/record.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

namespace farcall::bench {
namespace {

// A report in a file of its own, which Python then reads.
class JsonFile {
 public:
  explicit JsonFile(const Report& report) {
    const int fd = mkstemp(name_);
    REQUIRE(fd >= 0);
    close(fd);
    std::ofstream(name_) << ToJson(report);
  }
  ~JsonFile() { unlink(name_); }

  // Whether the statements run without an exception, with the parsed report as `r`.
  bool Holds(const std::string& statements) const {
    const std::string command =
        std::string("python3 -c 'import json, sys\nr = json.load(open(sys.argv[1]))\n") +
        statements + "' " + name_;
    return std::system(command.c_str()) == 0;
  }
  bool IsJson() const {
    return std::system(("python3 -m json.tool " + std::string(name_) + " /dev/null").c_str()) == 0;
  }

 private:
  char name_[32] = "/tmp/farcall_record_XXXXXX";
};

Measurement TwoCalls() {
  Measurement measurement;
  measurement.latency.Record(10'000);
  measurement.latency.Record(30'000);
  measurement.elapsed_ns = 40'000;
  measurement.cpu_ns = 50'000;
  return measurement;
}

TEST_CASE("figures follow from what was measured") {
  Measurement measurement = TwoCalls();
  measurement.errors = 3;
  Record record;
  SetFigures({.kind = Case::kBulkReply, .bytes = 1000, .outstanding = 8}, measurement, record);
  CHECK(record.kind == "bulk_reply");
  CHECK(record.bytes == 1000);
  CHECK(record.outstanding == 8);
  CHECK(record.samples == 2);
  CHECK(record.errors == 3);
  CHECK(record.p50_us == Approx(10).epsilon(0.01));
  CHECK(record.p999_us == Approx(30).epsilon(0.01));
  CHECK(record.mean_us == Approx(20));
  CHECK(record.calls_per_s == Approx(50'000));
  CHECK(record.mb_per_s == Approx(50));
  CHECK(record.cpu_us_per_call == Approx(25));
}

TEST_CASE("a report is JSON with every required field, and numbers where numbers belong") {
  Report report{.machine = DescribeMachine(),
                .versions = DescribeToolchain(),
                .settings = {{"rounds", 2.0}},
                .records = {}};
  Record record;
  record.transport = "floor/tcp";
  record.device = "kernel";
  record.mode = "event";
  record.path = "stream";
  record.core_distance_ns = 31.5;
  SetFigures({}, TwoCalls(), record);
  for (record.round = 1; record.round <= 2; ++record.round) report.records.push_back(record);

  const JsonFile file(report);
  CHECK(file.IsJson());
  CHECK(file.Holds(R"(
assert list(r) == ["machine", "versions", "settings", "records"], list(r)
assert r["machine"]["cores"] >= 1 and r["machine"]["kernel"].startswith("Linux"), r["machine"]
assert r["settings"] == {"rounds": 2}
assert [x["round"] for x in r["records"]] == [1, 2]
text = {"transport": "floor/tcp", "device": "kernel", "mode": "event", "case": "latency",
        "path": "stream"}
numbers = """bytes outstanding connections round core_distance_ns samples errors p50_us p90_us
  p99_us p999_us mean_us calls_per_s mb_per_s cpu_us_per_call""".split()
for x in r["records"]:
  assert set(x) == set(text) | set(numbers), set(x) ^ (set(text) | set(numbers))
  assert all(x[name] == text[name] for name in text), x
  assert all(type(x[name]) in (int, float) for name in numbers), x
  assert x["core_distance_ns"] == 31.5 and x["samples"] == 2
)"));
}

TEST_CASE("what was not measured is absent, and what was is there") {
  Record without;
  Record with;
  with.costs.syscalls = 0;
  with.costs.allocations = 1.5;
  with.costs.copied_bytes = 64;
  with.costs.sends = with.costs.reads = with.costs.doorbells = 1;
  with.costs.signalled = with.costs.registrations = 2;
  const JsonFile file({.machine = {}, .versions = {}, .settings = {}, .records = {without, with}});
  CHECK(file.Holds(R"(
measured = {"syscalls_per_call": 0, "allocations_per_call": 1.5, "copied_bytes_per_call": 64,
            "sends_per_call": 1, "reads_per_call": 1, "doorbells_per_call": 1,
            "signalled_per_call": 2, "registrations_per_call": 2}
absent = set(measured) | {"cpu_us_per_call", "core_distance_ns"}
assert not absent & set(r["records"][0]), r["records"][0]
assert {name: r["records"][1][name] for name in measured} == measured
)"));
}

TEST_CASE("stages, estimates and forced thresholds are fields of the records that have them") {
  Record plain;
  Record stages;
  stages.stages = Stages{.build = 1, .wire = 2.5, .finish = 3, .probes = 0.1};
  Record estimate;
  estimate.estimate = Estimate{.round_trips = 3, .network_us = 6, .transfer_us = 10, .own_us = 4};
  Record forced;
  forced.threshold = 0;
  const JsonFile file({.machine = {},
                       .versions = {},
                       .settings = {},
                       .records = {plain, stages, estimate, forced}});
  CHECK(file.Holds(R"(
plain, stages, estimate, forced = r["records"]
assert not [name for name in plain if name.startswith(("stage", "estimate", "threshold"))], plain
assert stages["stage_build_us"] == 1 and stages["stage_wire_us"] == 2.5, stages
assert stages["stage_finish_us"] == 3 and stages["stage_probes_us"] == 0.1, stages
assert len([name for name in stages if name.startswith("stage_")]) == 11, stages
assert estimate["estimate_round_trips"] == 3 and estimate["estimate_own_us"] == 4, estimate
assert forced["threshold"] == 0, forced
)"));
  CHECK_FALSE(forced.alone());
  CHECK(plain.alone());
}

TEST_CASE("any text and any number give valid JSON") {
  Record record;
  record.transport = "\"quoted\" \\ and\ncontrol\x01";
  record.p50_us = std::numeric_limits<double>::quiet_NaN();
  record.p99_us = std::numeric_limits<double>::infinity();
  record.mb_per_s = 1e300;
  record.samples = std::numeric_limits<uint64_t>::max();
  const JsonFile file(
      {.machine = {{"a \"name\"", "µs"}}, .versions = {}, .settings = {}, .records = {record}});
  CHECK(file.IsJson());
  CHECK(file.Holds(R"(
x = r["records"][0]
assert x["transport"] == "\"quoted\" \\ and\ncontrol\x01"
assert "p50_us" not in x and "p99_us" not in x
assert x["mb_per_s"] == 1e300 and x["samples"] == 2**64 - 1
assert r["machine"] == {"a \"name\"": "\u00b5s"}
)"));
}

}  // namespace
}  // namespace farcall::bench
