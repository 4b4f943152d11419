#include "farcall/bench/measure/compare.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "farcall/bench/measure/table.h"

namespace farcall::bench {
namespace {

constexpr double kNearNs = 31;
constexpr double kFarNs = 160;

Record Round(uint64_t round, std::optional<double> distance_ns, double p50_us) {
  Record record;
  record.transport = "tcp";
  record.device = "kernel";
  record.mode = "event";
  record.kind = "latency";
  record.path = "stream";
  record.bytes = 32;
  record.outstanding = 1;
  record.round = round;
  record.core_distance_ns = distance_ns;
  record.p50_us = p50_us;
  return record;
}

Rounds AsFloor(Rounds rounds) {
  for (Record& record : rounds) record.transport = "floor/tcp";
  return rounds;
}

TEST_CASE("distances fall into the groups that were seen") {
  CHECK(GroupOf(14) == CoreDistance::kSameCore);
  CHECK(GroupOf(kNearNs) == CoreDistance::kNear);
  CHECK(GroupOf(40) == CoreDistance::kNear);
  CHECK(GroupOf(kFarNs) == CoreDistance::kFar);
  CHECK(GroupOf(std::nullopt) == CoreDistance::kUnknown);
}

TEST_CASE("the median of an even number lies between the two in the middle") {
  CHECK(Median({3}) == 3);
  CHECK(Median({9, 1, 2}) == 2);
  CHECK(Median({4, 1, 100, 2}) == 3);
}

TEST_CASE("a ratio is taken within rounds, not between medians") {
  // The medians are 20 and 20; within the rounds ours takes twice, twice and half the time.
  const Rounds ours = {Round(1, kNearNs, 20), Round(2, kNearNs, 80), Round(3, kNearNs, 10)};
  const Rounds other = {Round(1, kNearNs, 10), Round(2, kNearNs, 40), Round(3, kNearNs, 20)};
  const std::optional<Ratio> ratio = RatioOf(&Record::p50_us, ours, other);
  REQUIRE(ratio);
  CHECK(ratio->median == 2);
  CHECK(ratio->lowest == 0.5);
  CHECK(ratio->highest == 2);
  CHECK(ratio->rounds == 3);
  CHECK(ratio->group == CoreDistance::kNear);
}

TEST_CASE("rounds of another distance never enter a ratio") {
  SECTION("the sides of one round ran at different distances") {
    const Rounds ours = {Round(1, kFarNs, 100), Round(2, kNearNs, 12)};
    const Rounds other = {Round(1, kNearNs, 10), Round(2, kNearNs, 10)};
    const std::optional<Ratio> ratio = RatioOf(&Record::p50_us, ours, other);
    REQUIRE(ratio);
    CHECK(ratio->median == 1.2);
    CHECK(ratio->rounds == 1);
  }
  SECTION("whole rounds ran at another distance: the larger group counts") {
    const Rounds ours = {Round(1, kNearNs, 9), Round(2, kFarNs, 20), Round(3, kFarNs, 30)};
    const Rounds other = {Round(1, kNearNs, 1), Round(2, kFarNs, 10), Round(3, kFarNs, 10)};
    const std::optional<Ratio> ratio = RatioOf(&Record::p50_us, ours, other);
    REQUIRE(ratio);
    CHECK(ratio->median == 2.5);
    CHECK(ratio->highest == 3);
    CHECK(ratio->group == CoreDistance::kFar);
  }
  SECTION("of groups as large, the nearest counts") {
    const Rounds ours = {Round(1, kFarNs, 20), Round(2, kNearNs, 30)};
    const Rounds other = {Round(1, kFarNs, 10), Round(2, kNearNs, 10)};
    const std::optional<Ratio> ratio = RatioOf(&Record::p50_us, ours, other);
    REQUIRE(ratio);
    CHECK(ratio->median == 3);
  }
  SECTION("no round has both sides at one distance") {
    CHECK_FALSE(
        RatioOf(&Record::p50_us, {Round(1, kFarNs, 100)}, {Round(1, kNearNs, 10)}).has_value());
  }
}

TEST_CASE("what cannot be divided has no ratio") {
  CHECK_FALSE(RatioOf(&Record::p50_us, {}, {Round(1, kNearNs, 1)}).has_value());
  CHECK_FALSE(RatioOf(&Record::p50_us, {Round(1, kNearNs, 1)}, {}).has_value());
  CHECK_FALSE(RatioOf(&Record::p50_us, {Round(1, kNearNs, 1)}, {Round(1, kNearNs, 0)}).has_value());
  CHECK_FALSE(RatioOf(&Record::p50_us, {Round(1, kNearNs, 1)}, {Round(2, kNearNs, 1)}).has_value());
}

TEST_CASE("where distances are unknown, rounds still compare") {
  const std::optional<Ratio> ratio =
      RatioOf(&Record::p50_us, {Round(1, std::nullopt, 3)}, {Round(1, std::nullopt, 2)});
  REQUIRE(ratio);
  CHECK(ratio->median == 1.5);
}

TEST_CASE("the largest group is the one with the most rounds") {
  const Rounds group =
      LargestGroup({Round(1, kNearNs, 1), Round(2, kFarNs, 2), Round(3, kFarNs, 3)});
  REQUIRE(group.size() == 2);
  CHECK(group[0].round == 2);
  CHECK(group[1].round == 3);
}

TEST_CASE("sizes read as people write them") {
  CHECK(FormatBytes(32) == "32 B");
  CHECK(FormatBytes(1025) == "1025 B");
  CHECK(FormatBytes(4096) == "4 KiB");
  CHECK(FormatBytes(16 << 20) == "16 MiB");
}

TEST_CASE("a table row ends with its ratio to the floor of its mode") {
  Rounds records = AsFloor({Round(1, kNearNs, 10), Round(2, kNearNs, 10)});
  Record busy_floor = AsFloor({Round(1, kNearNs, 1)}).front();
  busy_floor.mode = "busy";
  records.push_back(busy_floor);
  records.push_back(Round(1, kNearNs, 11));
  records.push_back(Round(2, kNearNs, 12));
  const std::string table = FormatTable(records);
  CAPTURE(table);
  CHECK(table.find("latency 32 B, 1 outstanding\n") == 0);
  CHECK(table.find("1.15 (1.10-1.20)") != std::string::npos);
  CHECK(table.find("time/floor") < table.find("1.15"));
  CHECK(FormatHeadline(records) == "a 32 B call: 11.5 us over tcp event (1.15x its floor)\n");
}

TEST_CASE("a row without a floor of its own is compared with none") {
  Rounds records = AsFloor({Round(1, kNearNs, 10)});
  records.push_back(Round(1, kNearNs, 11));
  records.back().transport = "loopback";
  const std::string table = FormatTable(records);
  CAPTURE(table);
  CHECK(table.find("1/1  -\n") != std::string::npos);
  CHECK(FormatHeadline(records) == "a 32 B call: 11.0 us over loopback event\n");
  CHECK(FormatHeadline(AsFloor({Round(1, kNearNs, 10)})).empty());
}

TEST_CASE("a row with something beside it is compared with itself alone") {
  Rounds records = AsFloor({Round(1, kNearNs, 1)});
  records.push_back(Round(1, kNearNs, 10));
  records.back().p99_us = 20;
  Record beside = records.back();
  beside.beside_bytes = uint64_t{1} << 30;
  beside.p99_us = 50;
  records.push_back(beside);
  Record crowded = records[1];
  crowded.idle_connections = 1000;
  crowded.p50_us = 11;
  records.push_back(crowded);
  const std::string table = FormatTable(records);
  CAPTURE(table);
  const size_t payloads =
      table.find("1 outstanding, beside payloads of 1024 MiB on its connection");
  const size_t crowd = table.find("1 outstanding, beside 1000 idle connections");
  REQUIRE(payloads != std::string::npos);
  REQUIRE(crowd != std::string::npos);
  CHECK(table.find("p99/alone", payloads) < table.find("2.50 (2.50-2.50)"));
  CHECK(table.find("p50/alone", crowd) < table.find("1.10 (1.10-1.10)"));
}

TEST_CASE("a table judges throughput by calls and bulk by bytes a second") {
  Rounds records;
  for (const char* kind : {"throughput", "bulk_request"}) {
    for (const char* transport : {"floor/tcp", "tcp"}) {
      Record record = Round(1, kNearNs, 10);
      const bool floor = record.transport != transport;
      record.transport = transport;
      record.kind = kind;
      record.calls_per_s = floor ? 100 : 50;
      record.mb_per_s = floor ? 100 : 75;
      records.push_back(record);
    }
  }
  const std::string table = FormatTable(records);
  CAPTURE(table);
  const size_t bulk = table.find("bulk_request");
  CHECK(table.find("time/floor\n") == std::string::npos);
  CHECK(table.find("rate/floor") < bulk);
  CHECK(table.find("0.50 (0.50-0.50)") < bulk);
  CHECK(table.find("0.75 (0.75-0.75)", bulk) != std::string::npos);
}

TEST_CASE("a row that nothing compares with says so") {
  Record busy = Round(1, kNearNs, 1);
  busy.mode = "busy";
  const Rounds records = {AsFloor({Round(1, kNearNs, 10)}).front(), Round(1, kFarNs, 20), busy};
  const std::string table = FormatTable(records);
  CHECK(table.find("no round at one core distance") != std::string::npos);
  CHECK(table.find("1/1  -\n") != std::string::npos);
}

}  // namespace
}  // namespace farcall::bench
