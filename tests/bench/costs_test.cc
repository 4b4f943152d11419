// What a call costs besides time, and where its time goes: how it is counted and told.
#include "farcall/bench/demo/costs.h"

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "farcall/bench/demo/stages.h"
#include "farcall/bench/measure/child_process.h"
#include "farcall/bench/measure/heap_count.h"
#include "farcall/bench/measure/process_counters.h"

namespace farcall::bench {
namespace {

absl::StatusOr<ProcessCounters> OfThisProcess() {
  return ProcessCounters::Open(std::array{::getpid()});
}

// False, with a warning, where nobody may count.
bool KernelCounts() {
  const absl::Status status = OfThisProcess().status();
  if (!status.ok()) WARN("this test needs a kernel that lets us count: " << status);
  return status.ok();
}

TEST_CASE("system calls between Start and Stop are counted, and no others") {
  if (!KernelCounts()) return;
  absl::StatusOr<ProcessCounters> counters = OfThisProcess();
  REQUIRE(counters.ok());
  const auto call = [](int times) {
    for (int i = 0; i < times; ++i) ::getppid();
  };
  call(100);
  counters->Start();
  call(500);
  counters->Stop();
  call(100);
  const Counts counts = counters->Read();
  REQUIRE(counts.syscalls.has_value());
  CHECK(*counts.syscalls >= 500);
  CHECK(*counts.syscalls <= 510);
  CHECK(counts.context_switches.has_value());
  CHECK_FALSE(counts.allocations.has_value());  // it does not count its heap
}

TEST_CASE("allocations are counted while heaps are") {
  if (!KernelCounts()) return;
  std::optional<CountHeaps> counting(std::in_place);
  absl::StatusOr<ProcessCounters> counters = OfThisProcess();
  REQUIRE(counters.ok());
  counters->Start();
  for (int i = 0; i < 300; ++i) {
    void* volatile memory = std::malloc(100);
    std::free(memory);
  }
  counters->Stop();
  CHECK(counters->Read().allocations == 300u);
  counting.reset();
  CHECK(OpenHeapCountOf(::getpid()) == -1);
  CHECK(std::getenv("LD_PRELOAD") == nullptr);
}

TEST_CASE("a process that does not count its heap leaves the number of allocations unknown") {
  if (!KernelCounts()) return;
  const absl::StatusOr<ChildProcess> other =
      ChildProcess::Start({.command = {"/bin/sh", "-c", "echo ready .; exec sleep 60"},
                           .core = {},
                           .ready_prefix = "ready "});
  REQUIRE(other.ok());
  const CountHeaps counting;
  absl::StatusOr<ProcessCounters> counters =
      ProcessCounters::Open(std::array{::getpid(), other->pid()});
  REQUIRE(counters.ok());
  counters->Start();
  counters->Stop();
  CHECK_FALSE(counters->Read().allocations.has_value());
}

// Answers with what it is made with.
class CountedSubject : public Subject {
 public:
  CountedSubject(std::string transport, Counts counts)
      : transport_(std::move(transport)), counts_(counts) {}

  std::string transport() const override { return transport_; }
  std::string device() const override { return "kernel"; }
  Mode mode() const override { return Mode::kBusy; }
  std::string path(const Workload& /*workload*/) const override { return "stream"; }
  absl::StatusOr<Measurement> Run(const Workload& workload, std::optional<int>) override {
    CHECK(workload.counted);
    Measurement measurement;
    for (int i = 0; i < 10; ++i) measurement.latency.Record(1000);
    measurement.elapsed_ns = 10'000;
    measurement.counts = counts_;
    return measurement;
  }
  absl::StatusOr<Costs> CountOperations(const Workload&, std::optional<int>) override {
    if (transport_ == "broken") return absl::UnavailableError("no connection");
    Costs costs;
    costs.doorbells = 2;
    return costs;
  }

 private:
  const std::string transport_;
  const Counts counts_;
};

Record RecordOf(const char* transport, uint64_t bytes, const char* kind = "latency") {
  Record record;
  record.transport = transport;
  record.mode = "busy";
  record.kind = kind;
  record.bytes = bytes;
  return record;
}

absl::Status Count(const char* transport, const Counts& counts, std::vector<Record>& records) {
  std::vector<std::unique_ptr<Subject>> subjects;
  subjects.push_back(std::make_unique<CountedSubject>(transport, counts));
  return CountCosts(
      subjects, {}, [](int, int, const std::string&) {}, records);
}

TEST_CASE("costs are a call's, and those of the records that they were counted for") {
  std::vector<Record> records = {RecordOf("tcp", 32), RecordOf("tcp", 32), RecordOf("shm", 32),
                                 RecordOf("tcp", 4096), RecordOf("tcp", 32, "throughput")};
  REQUIRE(Count("tcp", {.syscalls = 45, .context_switches = 0, .allocations = {}}, records).ok());
  for (size_t i = 0; i < 2; ++i) {
    CHECK(records[i].costs.syscalls == 4.5);
    CHECK(records[i].costs.context_switches == 0.0);
    CHECK_FALSE(records[i].costs.allocations.has_value());
    CHECK(records[i].costs.doorbells == 2.0);
  }
  for (size_t i = 2; i < records.size(); ++i) {
    CHECK_FALSE(records[i].costs.syscalls.has_value());
    CHECK_FALSE(records[i].costs.doorbells.has_value());
  }
}

TEST_CASE("costs that cannot be counted say of whom") {
  std::vector<Record> records = {RecordOf("broken", 32)};
  const absl::Status status = Count("broken", {}, records);
  CHECK(absl::IsUnavailable(status));
  CHECK(status.message() == "costs of 32 B, broken busy: no connection");
}

TEST_CASE("the line of the stages is read, and another one refused") {
  Record record;
  REQUIRE(ReadStages("120 10.5 0.1 1 2 3 4 5 6 7 8 9 10", record).ok());
  CHECK(record.samples == 120);
  CHECK(record.p50_us == 10.5);
  REQUIRE(record.stages.has_value());
  CHECK(record.stages->build == 1);
  CHECK(record.stages->finish == 10);
  CHECK(record.stages->probes == 0.1);
  CHECK(record.mean_us == 55);
  for (const char* line : {"", "120 10.5 0.1 1 2 3", "0 1 1 1 2 3 4 5 6 7 8 9 10", "x"}) {
    CHECK(absl::IsInvalidArgument(ReadStages(line, record)));
  }
}

TEST_CASE("a call over a library with probes passes all of them") {
  for (const char* address : {"tcp://127.0.0.1:0", "shm://farcall-stages-test"}) {
    for (const char* mode : {"event", "busy"}) {
      for (const char* bytes : {"32", "65536"}) {
        CAPTURE(address, mode, bytes);
        const absl::StatusOr<ChildProcess> program = ChildProcess::Start(
            {.command = {FARCALL_STAGES, address, mode, bytes, "30", "-1", "-1"},
             .core = {},
             .ready_prefix = "stages ",
             .ready_timeout = std::chrono::seconds(30)});
        REQUIRE(program.ok());
        Record record;
        REQUIRE(ReadStages(program->ready_line(), record).ok());
        // A stage between two probes of one thread takes some time, or a probe was not passed.
        for (const auto stage :
             {&Stages::build, &Stages::post, &Stages::poll, &Stages::verify, &Stages::dispatch,
              &Stages::handler, &Stages::reply, &Stages::finish}) {
          CHECK((*record.stages).*stage > 0);
        }
        CHECK(record.stages->probes < record.mean_us);
      }
    }
  }
}

}  // namespace
}  // namespace farcall::bench
