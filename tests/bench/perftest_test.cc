// What perftest prints, and what we take it for.
#include "farcall/bench/demo/perftest.h"

#include <catch2/catch.hpp>
#include <string>

namespace farcall::bench {
namespace {

const char kHead[] =
    "---------------------------------------------------------------------------------------\n"
    "                    Send Latency Test\n"
    " Dual-port       : OFF\t\tDevice         : rxe0\n"
    " rdma_cm QPs\t : ON\n"
    "---------------------------------------------------------------------------------------\n"
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
    "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n";

Workload Sends() { return {.kind = Case::kSendLat, .bytes = 116}; }
Workload Reads() { return {.kind = Case::kReadLat, .bytes = 65536}; }
Workload Stream() { return {.kind = Case::kReadBw, .bytes = 65536, .outstanding = 16}; }

std::string Latencies(const std::string& lines) {
  return kHead + ("#, usec\n" + lines) +
         "-----------------------------------------------------------------------------\n"
         " 116     20          15.05          12264.12      16.32    \t       2180.93\n";
}

std::string Bandwidth(const std::string& row) {
  return " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n" +
         row +
         "\n-------------------------------------------------------------------------------\n";
}

TEST_CASE("latencies are those that it lists, without the first tenth") {
  std::string lines = "1, 101585\n2, 99999\n";
  for (int i = 3; i <= 20; ++i) lines += std::to_string(i) + ", " + std::to_string(i) + ".5\n";
  const absl::StatusOr<Measurement> reads = FromPerftest(Reads(), Latencies(lines));
  REQUIRE(reads.ok());
  CHECK(reads->latency.count() == 18);
  CHECK(reads->latency.Quantile(0.5) == Approx(11'500).epsilon(0.05));
  CHECK(reads->latency.Quantile(1) == Approx(20'500).epsilon(0.01));
  // One after the other.
  CHECK(reads->elapsed_ns == 18 * 12'000);
  CHECK_FALSE(reads->cpu_ns);

  // Of a SEND it prints half of what passed.
  const absl::StatusOr<Measurement> sends = FromPerftest(Sends(), Latencies(lines));
  REQUIRE(sends.ok());
  CHECK(sends->latency.Quantile(0.5) == reads->latency.Quantile(0.5));
  CHECK(sends->elapsed_ns == 2 * reads->elapsed_ns);
}

TEST_CASE("a bandwidth counts bytes by 2^20, and READs take what so many at this rate take") {
  const absl::StatusOr<Measurement> stream = FromPerftest(
      Stream(), Bandwidth(" 65536      1000             127.78             62.50  \t\t   0.001"));
  REQUIRE(stream.ok());
  CHECK(stream->latency.count() == 1000);
  CHECK(stream->elapsed_ns == 1'000'000'000);
  CHECK(stream->latency.Quantile(0.5) == Approx(16e6).epsilon(0.01));
}

TEST_CASE("where it found no clock its figures are none, and it may be run again") {
  for (const char* us : {"inf", "0", "nan", "-nan"}) {
    CAPTURE(us);
    std::string lines;
    for (int i = 1; i <= 20; ++i) lines += std::to_string(i) + ", " + us + "\n";
    CHECK(absl::IsUnavailable(FromPerftest(Reads(), Latencies(lines)).status()));
  }
  const std::string none = Bandwidth(" 65536      1000             0.00               0.00\t 0.00");
  CHECK(absl::IsUnavailable(FromPerftest(Stream(), none).status()));
}

TEST_CASE("other output is no measurement, and is shown") {
  for (const std::string& output :
       {std::string(), std::string("Couldn't connect to 198.51.100.1:18515\n"), Latencies(""),
        std::string(kHead)}) {
    CAPTURE(output);
    const absl::Status status = FromPerftest(Sends(), output).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message().find("ib_send_lat printed no figures: ") == 0);
  }
  for (const std::string& output : {std::string("no table"), Bandwidth(""),
                                    Bandwidth(" 65536 1000 12"), Bandwidth(" 4096 1000 1 1 1")}) {
    CAPTURE(output);
    CHECK(absl::IsInvalidArgument(FromPerftest(Stream(), output).status()));
  }
}

TEST_CASE("a workload says which program, and with what") {
  CHECK(PerftestCommand(Sends()) ==
        std::vector<std::string>{"ib_send_lat", "-s", "116", "-n", "2000", "-U"});
  CHECK(PerftestCommand(Reads()) ==
        std::vector<std::string>{"ib_read_lat", "-s", "65536", "-n", "1000", "-U"});
  CHECK(PerftestCommand(Stream()) == std::vector<std::string>{"ib_read_bw", "-s", "65536", "-n",
                                                              "1500", "-t", "16", "-o", "16"});
}

}  // namespace
}  // namespace farcall::bench
