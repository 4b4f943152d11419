#include "farcall/bench/measure/read_report.h"

#include <catch2/catch.hpp>
#include <string>

namespace farcall::bench {
namespace {

Report Made() {
  Record all;
  all.transport = "rdma";
  all.device = "rxe0";
  all.mode = "busy";
  all.kind = "latency";
  all.path = "eager";
  all.bytes = uint64_t{16} << 20;
  all.outstanding = 4;
  all.idle_connections = 1000;
  all.beside_bytes = uint64_t{1} << 30;
  all.load_percent = 50;
  all.round = 101;
  all.core_distance_ns = 31.25;
  all.samples = 12345;
  all.p50_us = 53.4;
  all.p999_us = 1.5e-7;
  all.cpu_us_per_call = 0.5;
  all.costs.registrations = 0;
  Record few;
  few.transport = "floor/verbs";
  few.kind = "send_lat";
  few.samples = 1;
  Record stages;
  stages.kind = "stages";
  stages.samples = 3;
  stages.threshold = 8192;
  stages.stages = Stages{.build = 0.25, .finish = 0.5, .probes = 0.125};
  Record estimate;  // has no samples
  estimate.kind = "estimate";
  estimate.estimate = Estimate{.round_trips = 2, .network_us = 4, .transfer_us = 1.5, .own_us = 3};
  return {.machine = {{"processor", std::string("\"A\\B\"\n\x01 <µ>")}, {"cores", 2.0}},
          .versions = {},
          .settings = {{"quick", 1.0}, {"server", std::string("")}},
          .records = {all, few, stages, estimate}};
}

TEST_CASE("what was written is read as it was") {
  const std::string json = ToJson(Made());
  const absl::StatusOr<Report> read = ReadReport(json);
  REQUIRE(read.ok());
  CHECK(ToJson(*read) == json);
  CHECK(read->machine == Made().machine);
  REQUIRE(read->records.size() == 4);
  CHECK(read->records[0].idle_connections == 1000);
  CHECK(read->records[0].load_percent == 50);
  CHECK(read->records[0].costs.registrations == 0.0);
  CHECK_FALSE(read->records[1].core_distance_ns.has_value());
  CHECK_FALSE(read->records[1].stages.has_value());
  CHECK_FALSE(read->records[1].threshold.has_value());
  CHECK(read->records[2].threshold == 8192);
  REQUIRE(read->records[2].stages.has_value());
  CHECK(read->records[2].stages->finish == 0.5);
  CHECK(read->records[2].stages->probes == 0.125);
  CHECK_FALSE(read->records[2].estimate.has_value());
  REQUIRE(read->records[3].estimate.has_value());
  CHECK(read->records[3].estimate->transfer_us == 1.5);
  const absl::StatusOr<Report> empty = ReadReport(ToJson({}));
  REQUIRE(empty.ok());
  CHECK(empty->records.empty());
}

TEST_CASE("anything else is refused, wherever it ends") {
  const std::string json = ToJson(Made());
  for (size_t length = 0; length + 1 < json.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(ReadReport(json.substr(0, length)).ok());
  }
  for (const char* other :
       {"[]", "{\"records\": [{}]}", "{\"records\": [{\"samples\": 0}]}",
        "{\"records\": [{\"samples\": -1}]}", "{\"records\": [{\"samples\": 1, \"colour\": 2}]}",
        "{\"records\": [{\"samples\": \"1\"}]}", "{\"machines\": {}}", "{} {}",
        "{\"machine\": {\"a\": \"\\u00zz\"}}"}) {
    CAPTURE(other);
    const absl::Status status = ReadReport(other).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message().find("at byte ") != std::string::npos);
  }
}

TEST_CASE("runs are put together: all records, and what the first says of the machine") {
  Report all;
  AddReport(Made(), all);
  Report other = Made();
  other.machine = {{"cores", 4.0}, {"memory_mb", 1000.0}};
  AddReport(other, all);
  CHECK(all.records.size() == 8);
  REQUIRE(all.machine.size() == 3);
  CHECK(all.machine[1] == Facts::value_type("cores", 2.0));
  CHECK(all.machine[2] == Facts::value_type("memory_mb", 1000.0));
}

}  // namespace
}  // namespace farcall::bench
