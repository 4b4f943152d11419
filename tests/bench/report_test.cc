// A report of made-up records: what it says, and that its page is whole.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "farcall/bench/report/estimate.h"
#include "farcall/bench/report/html.h"
#include "farcall/bench/report/model.h"
#include "farcall/bench/report/targets.h"

namespace farcall::bench {
namespace {

struct Made {
  const char* transport;
  const char* mode;
  const char* kind = "latency";
  uint64_t bytes = 32;
  double p50_us = 10;
  double mb_per_s = 0;
  uint64_t outstanding = 1;
  const char* device = "kernel";
};

Record Make(const Made& made, uint64_t round = 1) {
  Record record;
  record.transport = made.transport;
  record.device = made.device;
  record.mode = made.mode;
  record.kind = made.kind;
  record.path = "eager";
  record.bytes = made.bytes;
  record.outstanding = made.outstanding;
  record.round = round;
  record.core_distance_ns = 31;
  record.samples = 100;
  record.p50_us = made.p50_us;
  record.p90_us = made.p50_us * 2;
  record.p99_us = made.p50_us * 3;
  record.p999_us = made.p50_us * 4;
  record.calls_per_s = 1e6 / made.p50_us;
  record.mb_per_s = made.mb_per_s;
  return record;
}

const Verdict& Find(const std::vector<Verdict>& verdicts, const std::string& what) {
  for (const Verdict& verdict : verdicts) {
    if (verdict.what.find(what) != std::string::npos) return verdict;
  }
  FAIL("no target " + what);
  return verdicts.front();
}

const LineChart& Chart(const ReportModel& model, const std::string& title) {
  for (const LineChart& chart : model.charts) {
    if (chart.title == title) return chart;
  }
  FAIL("no chart " + title);
  return model.charts.front();
}

size_t Count(const std::string& text, const std::string& what) {
  size_t times = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++times;
  return times;
}

TEST_CASE("a target is met or missed by the median of the ratios within rounds") {
  std::vector<Record> records;
  for (const uint64_t round : {1, 2, 3}) {
    const double mood = static_cast<double>(round);  // of the machine
    records.push_back(Make({.transport = "floor/tcp", .mode = "busy", .p50_us = 10 * mood}, round));
    records.push_back(Make({.transport = "tcp", .mode = "busy", .p50_us = 12.9 * mood}, round));
    records.push_back(Make({.transport = "floor/tcp", .mode = "event", .p50_us = 50}, round));
    records.push_back(Make({.transport = "tcp", .mode = "event", .p50_us = 58}, round));
    records.push_back(Make({.transport = "shm", .mode = "busy", .p50_us = mood}, round));
  }
  const std::vector<Verdict> verdicts = Judge(records);
  const Verdict& busy = Find(verdicts, "tcp busy / floor/tcp busy");
  REQUIRE(busy.found);
  CHECK(busy.found->median == Approx(1.29));
  CHECK(busy.found->rounds == 3);
  CHECK(busy.pass);
  CHECK(busy.must == "at most 1.30");
  CHECK_FALSE(Find(verdicts, "tcp event / floor/tcp event").pass);
  // 2 us in the middle round, where at most 1 is wanted.
  const Verdict& absolute = Find(verdicts, "shm busy, latency 32 B, us");
  CHECK(absolute.found->median == 2);
  CHECK_FALSE(absolute.pass);
  CHECK(Find(verdicts, "tcp busy / shm busy").pass);

  const std::string lines = FormatVerdicts(verdicts);
  CHECK(Count(lines, "  pass ") == 2);
  CHECK(Count(lines, "  SHORT ") == 2);
  CHECK(lines.find("were not measured in this run") != std::string::npos);
}

// What perftest and ours found on a device, in rounds with different moods of the machine.
std::vector<Record> OnAdapter(const char* device, uint64_t first_round, double small_us) {
  constexpr uint64_t kKib64 = 65536, kMib = 1 << 20, kChunk = 262144;
  std::vector<Record> records;
  for (uint64_t i = 0; i < 3; ++i) {
    const double mood = static_cast<double>(i + 1);
    const auto add = [&](const char* transport, const char* kind, uint64_t bytes, double us,
                         double mb_per_s, uint64_t outstanding) {
      Record record = Make({.transport = transport,
                            .mode = "busy",
                            .kind = kind,
                            .bytes = bytes,
                            .p50_us = us * mood,
                            .mb_per_s = mb_per_s / mood,
                            .outstanding = outstanding,
                            .device = device},
                           first_round + i);
      record.core_distance_ns.reset();
      records.push_back(record);
    };
    add("floor/verbs", "send_lat", 116, 15, 0, 1);
    add("floor/verbs", "read_lat", kKib64, 870, 0, 1);
    add("floor/verbs", "read_bw", kChunk, 100, 60, 16);
    add("rdma", "latency", 32, small_us, 0, 1);
    add("rdma", "bulk_request", kKib64, 1080, 0, 1);
    add("rdma", "bulk_request", kMib, 1, 57, 4);
    add("rdma", "bulk_request", kMib, 1, 999, 8);  // no such target
    add("rdma", "bulk_reply", kMib, 1, 30, 4);
  }
  return records;
}

TEST_CASE("over an adapter beside perftest, the operations of a call are its floor") {
  std::vector<Record> records = OnAdapter("rxe0", 1, 45);
  const std::vector<Record> siw = OnAdapter("siw0", 101, 90);
  records.insert(records.end(), siw.begin(), siw.end());
  records.push_back(Make({.transport = "tcp", .mode = "busy"}));
  const std::vector<Verdict> verdicts = Judge(records);
  // Of an emulated machine no other target speaks.
  CHECK(verdicts.size() == 8);
  const Verdict& small = Find(verdicts, "rxe0 busy, latency 32 B / (2 x ib_send_lat of 116 B)");
  REQUIRE(small.found);
  CHECK(small.found->median == Approx(1.5));
  CHECK(small.found->rounds == 3);
  CHECK(small.pass);
  CHECK(small.must == "at most 1.60");
  const Verdict& of_siw = Find(verdicts, "siw0 busy, latency 32 B");
  CHECK(of_siw.found->median == Approx(3));
  CHECK_FALSE(of_siw.pass);
  CHECK(of_siw.must == "at most 1.60, if it were rxe");
  const Verdict& rendezvous = Find(verdicts, "rxe0 busy, a request of 64 KiB by rendezvous");
  CHECK(rendezvous.found->median == Approx(1.2));
  CHECK(rendezvous.pass);
  const Verdict& bulk = Find(verdicts, "rxe0 busy, bulk_request 1 MiB, 4 in flight / ib_read_bw");
  CHECK(bulk.found->median == Approx(0.95));
  CHECK(bulk.pass);
  CHECK_FALSE(Find(verdicts, "rxe0 busy, bulk_reply").pass);
}

TEST_CASE("an operation that an adapter lacks leaves its targets unmeasured") {
  std::vector<Record> records = OnAdapter("siw0", 1, 45);
  std::erase_if(records, [](const Record& of) { return of.kind == "read_lat"; });
  const std::vector<Verdict> verdicts = Judge(records);
  CHECK(Find(verdicts, "latency 32 B").found);
  CHECK_FALSE(Find(verdicts, "a request of 64 KiB by rendezvous").found);
}

TEST_CASE("a page of software adapters says what they are, and tells them apart") {
  std::vector<Record> records = OnAdapter("rxe0", 1, 45);
  const std::vector<Record> siw = OnAdapter("siw0", 101, 90);
  records.insert(records.end(), siw.begin(), siw.end());
  const ReportModel model = MakeModel({{}, {}, {}, records}, {"busy"});
  REQUIRE(model.warnings.size() == 2);
  CHECK(model.warnings[0].find("rxe and siw are no RDMA hardware") == 0);
  CHECK(model.headline == "A 32-byte call: 90 us over busy rxe0, 180 us over busy siw0");
  const LineChart& latency = Chart(model, "Latency by size");
  REQUIRE(latency.series.size() == 2);
  CHECK(latency.series[0].name == "rdma/rxe0 busy");
  CHECK(latency.series[1].name == "rdma/siw0 busy");
  CHECK(latency.series[0].look.colour != latency.series[1].look.colour);
  // perftest's operations are no calls.
  CHECK(MakeModel({{}, {}, {}, {Make({.transport = "tcp", .mode = "busy"})}}, {}).warnings.empty());
}

TEST_CASE("what was not measured is neither met nor missed") {
  for (const Verdict& verdict : Judge({})) {
    CHECK_FALSE(verdict.found);
    CHECK_FALSE(verdict.pass);
  }
  CHECK(FormatVerdicts(Judge({})).empty());
}

TEST_CASE("a target for what lies beside is not met by calls alone") {
  Record alone = Make({.transport = "tcp", .mode = "busy"});
  Record beside = alone;
  beside.beside_bytes = uint64_t{1} << 30;
  beside.p99_us = 9 * alone.p99_us;
  const std::vector<Verdict> verdicts = Judge({alone, beside});
  const Verdict& found = Find(verdicts, "tcp busy / alone, latency 32 B beside payloads of");
  REQUIRE(found.found);
  CHECK(found.found->median == Approx(9));
  CHECK(found.pass);
  CHECK_FALSE(Find(verdicts, "tcp busy / floor/tcp busy").found);
}

TEST_CASE("the tail at half load is judged by calls at half load") {
  Record full = Make({.transport = "tcp", .mode = "event"});
  full.kind = "throughput";
  full.outstanding = full.connections = 64;
  full.p99_us = 100 * full.p50_us;
  Record half = full;
  half.load_percent = 50;
  half.p99_us = 4 * half.p50_us;
  const std::vector<Verdict> verdicts = Judge({full, half});
  const Verdict& found =
      Find(verdicts, "tcp event, throughput 32 B over 64 connections at 50 % of the load");
  REQUIRE(found.found);
  CHECK(found.found->median == Approx(4));
  CHECK(found.pass);
}

TEST_CASE("curves go through medians, and the bands of ours reach up to the 90th percentile") {
  std::vector<Record> records;
  for (const uint64_t bytes : {uint64_t{32}, uint64_t{4096}, uint64_t{1} << 20}) {
    for (const uint64_t round : {1, 2, 3}) {
      const double us = static_cast<double>(round * bytes);
      records.push_back(
          Make({.transport = "tcp", .mode = "event", .bytes = bytes, .p50_us = us}, round));
      records.push_back(
          Make({.transport = "floor/tcp", .mode = "event", .bytes = bytes, .p50_us = us}, round));
    }
  }
  const ReportModel model = MakeModel({{}, {}, {}, records}, {});
  const LineChart& chart = Chart(model, "Latency by size");
  REQUIRE(chart.series.size() == 2);
  CHECK(chart.series[0].name == "tcp event");
  CHECK(chart.series[0].look.dashed);
  REQUIRE(chart.series[0].points.size() == 3);
  CHECK(chart.series[0].points[1].x == 4096);
  CHECK(chart.series[0].points[1].y == 2 * 4096);
  CHECK(chart.series[0].points[1].upper == 2 * 2 * 4096);
  CHECK(chart.series[1].points[1].upper == chart.series[1].points[1].y);
  CHECK(Chart(model, "How the latency of a small call is distributed").series[0].points.size() ==
        4);
}

TEST_CASE("one call in flight is a throughput, too") {
  const ReportModel model = MakeModel(
      {{},
       {},
       {},
       {Make({.transport = "tcp", .mode = "busy", .p50_us = 10}), Make({.transport = "tcp",
                                                                        .mode = "busy",
                                                                        .kind = "throughput",
                                                                        .p50_us = 2,
                                                                        .outstanding = 64})}},
      {});
  const std::vector<Point>& points = Chart(model, "Throughput by calls in flight").series[0].points;
  REQUIRE(points.size() == 2);
  CHECK(points[0].x == 1);
  CHECK(points[0].y == Approx(100e3));
  CHECK(points[1].x == 64);
  CHECK(points[1].y == Approx(500e3));
}

TEST_CASE("bandwidth of one size is bars, the widest first; of several sizes it is curves") {
  std::vector<Record> records = {
      Make(
          {.transport = "tcp", .mode = "busy", .kind = "bulk_reply", .bytes = 1024, .mb_per_s = 5}),
      Make({.transport = "shm",
            .mode = "busy",
            .kind = "bulk_reply",
            .bytes = 1024,
            .mb_per_s = 9})};
  const ReportModel one = MakeModel({{}, {}, {}, records}, {});
  CHECK(one.charts.empty());
  REQUIRE(one.bars.size() == 1);
  CHECK(one.bars[0].title == "Bandwidth of large replies, 1 KiB");
  CHECK(one.bars[0].bars[0].name == "shm busy");
  CHECK(one.bars[0].bars[1].value == 5);
  records.push_back(Make(
      {.transport = "shm", .mode = "busy", .kind = "bulk_reply", .bytes = 4096, .mb_per_s = 9}));
  const ReportModel two = MakeModel({{}, {}, {}, records}, {});
  CHECK(two.bars.empty());
  CHECK(Chart(two, "Bandwidth of large replies").series.size() == 2);
}

TEST_CASE("the answer names who was measured, in one line") {
  const ReportModel model =
      MakeModel({{},
                 {},
                 {},
                 {Make({.transport = "peer/grpc-callback", .mode = "event", .p50_us = 95}),
                  Make({.transport = "shm", .mode = "busy", .p50_us = 0.98})}},
                {});
  CHECK(model.headline == "A 32-byte call: 0.98 us over the software NIC, 95 us with gRPC");
}

TEST_CASE("the cost table has the columns that somebody measured, and no figure for the others") {
  Record counted = Make({.transport = "shm", .mode = "busy"});
  counted.costs.send_calls = 1;
  const ReportModel model =
      MakeModel({{}, {}, {}, {counted, Make({.transport = "floor/tcp", .mode = "busy"})}}, {});
  REQUIRE(model.costs.size() == 1);
  CHECK(model.costs[0].columns == std::vector<std::string>{"sends"});
  REQUIRE(model.costs[0].rows.size() == 2);
  CHECK(model.costs[0].rows[0].values[0] == 1.0);
  CHECK_FALSE(model.costs[0].rows[1].values[0].has_value());
}

// Of a call in which each stage takes as long.
Record MakeStages(const char* transport, const char* mode, uint64_t bytes, double each_us) {
  Record record = Make({.transport = transport, .mode = mode, .kind = "stages", .bytes = bytes});
  record.stages.emplace();
  for (const auto& [name, stage] : kStages) (*record.stages).*stage = each_us;
  record.stages->probes = 0.1;
  record.mean_us = each_us * static_cast<double>(kStages.size());
  return record;
}

TEST_CASE("stages are parts of bars, a chart and a table for each size") {
  const std::vector<Record> records = {MakeStages("shm", "busy", 32, 0.1),
                                       MakeStages("tcp", "event", 32, 5),
                                       MakeStages("shm", "busy", uint64_t{1} << 20, 10)};
  const ReportModel model = MakeModel({{}, {}, {}, records}, {});
  REQUIRE(model.stages.size() == 2);
  REQUIRE(model.stages[0].bars.size() == 2);
  CHECK(model.stages[0].bars[1].name == "tcp event");
  CHECK(model.stages[0].parts.size() == kStages.size());
  CHECK(model.stages[0].caption.find("the probes themselves take 0.10 us") != std::string::npos);
  CHECK(model.stage_tables[0].rows[0].values.back() == Approx(1.0));
  const std::string svg = ToSvg(model.stages[0], 860);
  CHECK(Count(svg, "<rect") == 2 * kStages.size());
  CHECK(svg.find("50 us") != std::string::npos);
  // Nobody else takes them for calls: no curve, no row of a table.
  CHECK(model.charts.empty());
  CHECK(model.costs.empty());
  CHECK_FALSE(model.roce.has_value());
}

TEST_CASE("the estimate is counted operations times published costs, and our own steps") {
  Record small = Make({.transport = "shm", .mode = "busy"});
  small.costs.sends = small.costs.doorbells = 2;
  small.costs.reads = 0;
  Record large = Make({.transport = "shm", .mode = "busy", .bytes = uint64_t{1} << 20});
  large.costs.sends = 4;
  large.costs.reads = 8;
  const std::vector<Record> records = {
      small,
      large,
      MakeStages("shm", "busy", 32, 0.1),
      MakeStages("shm", "busy", uint64_t{1} << 20, 1),
      MakeStages("tcp", "busy", 32, 1),
      MakeStages("shm", "busy", 4096, 1)};  // not counted: no estimate
  const std::vector<RoceEstimate> estimates = EstimateRoce(records);
  REQUIRE(estimates.size() == 2);
  CHECK(estimates[0].round_trips == 1);
  CHECK(estimates[0].own_us == Approx(0.8));  // without wire and payload
  CHECK(estimates[0].call_us() == Approx(3.1).epsilon(0.01));
  CHECK(estimates[1].round_trips == 3);
  CHECK(estimates[1].transfer_us == Approx(2 * 1048576 / 12500.0));
  CHECK(estimates[1].call_us() == Approx(6.9 + 167.77 + 8).epsilon(0.01));

  const ReportModel model = MakeModel({{}, {}, {}, records}, {});
  REQUIRE(model.roce.has_value());
  CHECK(model.roce->rows.size() == 2);
  const std::string page = ToHtml(model);
  CHECK(page.find("An estimate, not a measurement") != std::string::npos);
  CHECK(page.find("USENIX NSDI 2019") != std::string::npos);
  const std::vector<Record> as_records = RoceRecords(estimates);
  REQUIRE(as_records.size() == 2);
  CHECK(as_records[0].kind == "estimate");
  CHECK(as_records[1].p50_us == Approx(estimates[1].call_us()));
}

TEST_CASE("forced ways are a chart of their own, and are in no other") {
  std::vector<Record> records;
  for (const uint64_t bytes : {uint64_t{4096}, uint64_t{16384}}) {
    for (const char* path : {"eager", "rendezvous"}) {
      Record record = Make({.transport = "shm", .mode = "busy", .bytes = bytes});
      record.path = path;
      record.threshold = std::string(path) == "eager" ? 128 << 10 : 0;
      records.push_back(record);
    }
  }
  const ReportModel model = MakeModel({{}, {}, {}, records}, {});
  REQUIRE(model.charts.size() == 1);
  CHECK(model.charts[0].title == "Eager and rendezvous");
  REQUIRE(model.charts[0].series.size() == 2);
  CHECK(model.charts[0].series[1].name == "shm busy, all rendezvous");
  CHECK(model.charts[0].series[1].points.size() == 2);
}

TEST_CASE("budgets are judged by what was counted, not by time") {
  Record counted = Make({.transport = "shm", .mode = "busy"});
  counted.costs.doorbells = 3;
  counted.costs.registrations = 0;
  const std::vector<Verdict> verdicts = Judge({counted});
  const Verdict& doorbells = Find(verdicts, "shm busy, latency 32 B, doorbells a call");
  REQUIRE(doorbells.found);
  CHECK_FALSE(doorbells.pass);
  CHECK(Find(verdicts, "shm busy, latency 32 B, registrations a call").pass);
  CHECK_FALSE(Find(verdicts, "shm busy, latency 32 B, SENDs a call").found);
  CHECK(ToText(doorbells) == "3 (3 to 3), at most 2.01: short");
}

TEST_CASE("a run without records gives a page without charts") {
  const ReportModel model = MakeModel({}, {});
  CHECK(model.charts.empty());
  CHECK(model.bars.empty());
  CHECK(model.costs.empty());
  const std::string page = ToHtml(model);
  CHECK(page.find("<svg") == std::string::npos);
  CHECK(page.ends_with("</html>\n"));
}

TEST_CASE("a page needs nothing else, and text of others is no markup") {
  std::vector<Record> records;
  for (const uint64_t bytes : {uint64_t{32}, uint64_t{1} << 20}) {
    records.push_back(Make({.transport = "tcp", .mode = "busy", .bytes = bytes}));
    records.push_back(Make({.transport = "tcp",
                            .mode = "busy",
                            .kind = "bulk_reply",
                            .bytes = bytes,
                            .mb_per_s = 1000}));
  }
  const std::string page =
      ToHtml(MakeModel({{{"processor", std::string("<b>&'")}}, {}, {}, records}, {"a < b"}));
  CHECK(page.find("A 32-byte call: 10 us over busy TCP") != std::string::npos);
  CHECK(page.find("&lt;b&gt;&amp;&#39;") != std::string::npos);
  CHECK(page.find("a &lt; b") != std::string::npos);
  for (const char* foreign :
       {"http:", "https:", "<script", "<link", "<img", "url(", "nan", "inf'"}) {
    CAPTURE(foreign);
    CHECK(page.find(foreign) == std::string::npos);
  }
  CHECK(Count(page, "<svg") == Count(page, "</svg>"));
  CHECK(Count(page, "<g ") == Count(page, "</g>"));
  CHECK(Count(page, "<section>") == Count(page, "</section>"));
}

TEST_CASE("a chart of one value, and of values that have no logarithm, is still a chart") {
  LineChart chart;
  chart.series = {{"a", {}, {{32, 5, 5}}}};
  CHECK(Count(ToSvg(chart, 400), "<circle") == 1);
  chart.series[0].points = {{32, 0, 0}, {64, -1, -1}};
  CHECK(ToSvg(chart, 400).empty());
  chart.series[0].points.push_back({128, 3, 9});
  CHECK(Count(ToSvg(chart, 400), "<circle") == 1);
}

TEST_CASE("numbers are as short as they are sure") {
  CHECK(ShortNumber(0) == "0");
  CHECK(ShortNumber(0.0123) == "0.012");
  CHECK(ShortNumber(0.00007) == "<0.001");
  CHECK(ShortNumber(0.123) == "0.12");
  CHECK(ShortNumber(12.34) == "12.3");
  CHECK(ShortNumber(1234) == "1234");
  CHECK(ShortNumber(12345) == "12.3 k");
  CHECK(ShortNumber(1234567) == "1.23 M");
  CHECK(ShortNumber(2e6) == "2 M");
}

}  // namespace
}  // namespace farcall::bench
