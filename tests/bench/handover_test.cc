#include "farcall/bench/measure/handover.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

namespace farcall::bench {
namespace {

Measurement Some() {
  Measurement measurement;
  for (uint64_t i = 0; i < 1000; ++i) measurement.latency.Record(i * i * i);
  measurement.elapsed_ns = 123'456'789;
  measurement.cpu_ns = 99;
  measurement.errors = 2;
  measurement.counts.syscalls = 2004;
  measurement.counts.allocations = 0;
  measurement.first_error = "reply 7 | is\nnot 1:1 what was sent";
  return measurement;
}

TEST_CASE("a measurement survives its line") {
  const Measurement before = Some();
  const std::string line = ToLine(before);
  CHECK(line.find('\n') == std::string::npos);
  const absl::StatusOr<Measurement> after = FromLine(line);
  REQUIRE(after.ok());
  CHECK(after->elapsed_ns == before.elapsed_ns);
  CHECK(after->cpu_ns == before.cpu_ns);
  CHECK(after->errors == before.errors);
  CHECK(after->counts.syscalls == before.counts.syscalls);
  CHECK(after->counts.allocations == before.counts.allocations);
  CHECK_FALSE(after->counts.context_switches.has_value());
  CHECK(after->first_error == "reply 7 | is not 1:1 what was sent");
  CHECK(after->latency.count() == before.latency.count());
  for (const double fraction : {0.0, 0.5, 0.9, 0.99, 1.0}) {
    CHECK(after->latency.Quantile(fraction) == before.latency.Quantile(fraction));
  }
  CHECK(after->latency.Mean() == Approx(before.latency.Mean()).epsilon(0.002));
}

TEST_CASE("one without calls and errors does as well") {
  const absl::StatusOr<Measurement> after = FromLine(ToLine(Measurement()));
  REQUIRE(after.ok());
  CHECK(after->latency.count() == 0);
  CHECK(after->first_error.empty());
}

TEST_CASE("what is no line of a measurement is refused") {
  const std::string line = ToLine(Some());
  for (const std::string& broken :
       {std::string(), std::string("1 2"), std::string("1 2 x - - - |"), std::string("1 2 3 "),
        std::string("1 2 3 |"), std::string("1 2 3 - - |"), std::string("1 2 3 - -5 - |"),
        std::string("1 2 3 - - - "), std::string("1 2 3 - - - 4 |"), std::string("1 2 3 - - - 4:|"),
        std::string("1 2 3 - - - 4:5|"), std::string("1 2 -3 - - - |"),
        std::string("1 2 3 - - - 4:99999999999999 |"), line.substr(0, line.find('|'))}) {
    CAPTURE(broken);
    CHECK(absl::IsInvalidArgument(FromLine(broken).status()));
  }
}

}  // namespace
}  // namespace farcall::bench
