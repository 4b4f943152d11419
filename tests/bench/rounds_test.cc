#include "farcall/bench/demo/rounds.h"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace farcall::bench {
namespace {

// Says what it was asked to run, and answers as the test wants.
class FakeSubject : public Subject {
 public:
  FakeSubject(std::string transport, std::vector<std::string>& log)
      : transport_(std::move(transport)), log_(log) {}

  std::string transport() const override { return transport_; }
  std::string device() const override { return "kernel"; }
  Mode mode() const override { return Mode::kBusy; }
  std::string path(const Workload& /*workload*/) const override { return "stream"; }

  absl::StatusOr<Measurement> Run(const Workload& workload, std::optional<int>) override {
    log_.push_back(transport_ + " " + std::to_string(workload.bytes));
    return answer;
  }

  absl::StatusOr<Measurement> answer = [] {
    Measurement measurement;
    measurement.latency.Record(1000);
    measurement.elapsed_ns = 1000;
    return measurement;
  }();

 private:
  const std::string transport_;
  std::vector<std::string>& log_;
};

struct Fixture {
  Plan plan{.workloads = {{.kind = Case::kLatency, .bytes = 32},
                          {.kind = Case::kBulkReply, .bytes = 4096, .outstanding = 8}},
            .rounds = 2};
  std::vector<std::string> log;
  std::vector<std::unique_ptr<Subject>> subjects;
  std::vector<std::string> progress;
  FakeSubject* ours = nullptr;

  Fixture() {
    subjects.push_back(std::make_unique<FakeSubject>("floor/tcp", log));
    auto subject = std::make_unique<FakeSubject>("tcp", log);
    ours = subject.get();
    subjects.push_back(std::move(subject));
  }

  Outcome Run(const DistanceProbe& probe) {
    return RunRounds(
        plan, subjects, {.client = 0, .server = 1}, probe,
        [this](int number, int total, const std::string& what) {
          progress.push_back(std::to_string(number) + "/" + std::to_string(total) + " " + what);
        });
  }
};

double Near() { return 31; }

TEST_CASE("subjects alternate within each case of each round") {
  Fixture fixture;
  const Outcome outcome = fixture.Run(Near);
  CHECK(outcome.status.ok());
  CHECK(fixture.log == std::vector<std::string>{"floor/tcp 32", "tcp 32", "floor/tcp 4096",
                                                "tcp 4096", "floor/tcp 32", "tcp 32",
                                                "floor/tcp 4096", "tcp 4096"});
  CHECK(fixture.progress.front() == "1/8 latency 32 B, floor/tcp busy");
  CHECK(fixture.progress.back() == "8/8 bulk_reply 4 KiB, tcp busy");
  REQUIRE(outcome.records.size() == 8);
  const Record& last = outcome.records.back();
  CHECK(last.transport == "tcp");
  CHECK(last.device == "kernel");
  CHECK(last.mode == "busy");
  CHECK(last.path == "stream");
  CHECK(last.kind == "bulk_reply");
  CHECK(last.bytes == 4096);
  CHECK(last.outstanding == 8);
  CHECK(last.round == 2);
  CHECK(last.samples == 1);
  CHECK(last.core_distance_ns == 31);
}

TEST_CASE("a measurement during which the cores moved is repeated") {
  Fixture fixture;
  fixture.plan.workloads.resize(1);
  fixture.plan.rounds = 1;
  std::vector<double> distances = {31, 160, 158, 30, 32};  // moved; then not; moved between; not
  size_t probes = 0;
  const Outcome outcome = fixture.Run([&] { return distances.at(probes++); });
  CHECK(probes == distances.size());
  CHECK(fixture.log == std::vector<std::string>{"floor/tcp 32", "floor/tcp 32", "tcp 32"});
  REQUIRE(outcome.records.size() == 2);
  CHECK(outcome.records[0].core_distance_ns == 159);
  CHECK(outcome.records[1].core_distance_ns == 31);
  CHECK(outcome.dropped == 0);
}

TEST_CASE("a measurement that is never left alone is dropped, and the run goes on") {
  Fixture fixture;
  fixture.plan.rounds = 1;
  int probes = 0;
  const Outcome outcome = fixture.Run([&] { return probes++ % 2 == 0 ? 31.0 : 160.0; });
  CHECK(outcome.status.ok());
  CHECK(outcome.records.empty());
  CHECK(outcome.dropped == 4);
  CHECK(fixture.log.size() == 12);  // three attempts each
}

TEST_CASE("without a probe, records have no distance") {
  Fixture fixture;
  const Outcome outcome = fixture.Run(ProbeOf({}));
  REQUIRE(outcome.records.size() == 8);
  CHECK_FALSE(outcome.records.front().core_distance_ns.has_value());
}

TEST_CASE("a subject that fails ends the run with its name, and what was measured is kept") {
  Fixture fixture;
  fixture.ours->answer = absl::UnavailableError("the server is gone");
  const Outcome outcome = fixture.Run(Near);
  CHECK(absl::IsUnavailable(outcome.status));
  CHECK(outcome.status.message() == "latency 32 B, tcp busy: the server is gone");
  CHECK(outcome.records.size() == 1);
}

TEST_CASE("a run without a single call is a failure") {
  Fixture fixture;
  fixture.ours->answer->latency = Latencies();
  CHECK_FALSE(fixture.Run(Near).status.ok());
}

TEST_CASE("failed calls are in the record and in words") {
  Fixture fixture;
  fixture.ours->answer->errors = 7;
  fixture.ours->answer->first_error = "reply 3 is wrong";
  const Outcome outcome = fixture.Run(Near);
  CHECK(outcome.records.at(1).errors == 7);
  REQUIRE(outcome.wrong_replies.size() == 4);
  CHECK(outcome.wrong_replies[0] ==
        "latency 32 B, tcp busy: 7 calls failed, the first: reply 3 is wrong");
}

TEST_CASE("the plans hold what the targets are stated for") {
  for (const Plan& plan : {QuickPlan(), FullPlan()}) {
    CHECK(plan.rounds >= 3);
    bool latency = false;
    bool throughput = false;
    bool bulk = false;
    for (const Workload& workload : plan.workloads) {
      latency |= workload.kind == Case::kLatency && workload.bytes == 32;
      throughput |= workload.kind == Case::kThroughput && workload.outstanding == 64;
      bulk |= workload.kind == Case::kBulkRequest && workload.bytes == 1 << 20;
      CHECK((workload.kind == Case::kLatency) == (workload.outstanding == 1));
    }
    CHECK((latency && throughput && bulk));
  }
}

}  // namespace
}  // namespace farcall::bench
