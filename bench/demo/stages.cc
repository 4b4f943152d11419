#include "farcall/bench/demo/stages.h"

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "farcall/bench/demo/farcall_subject.h"
#include "farcall/bench/measure/child_process.h"
#include "farcall/bench/measure/table.h"

namespace farcall::bench {
namespace {

constexpr size_t kSizes[] = {32, size_t{64} << 10, size_t{1} << 20};
constexpr char kDurationMs[] = "100";
constexpr std::chrono::seconds kPatience(10);

std::string CoreOf(std::optional<int> core) { return std::to_string(core.value_or(-1)); }

absl::StatusOr<Record> MeasureOne(Scheme scheme, Mode mode, size_t bytes, const Cores& cores) {
  const ProcessSubject subject("", scheme, mode);
  Record record = NameRecord(subject, {.kind = Case::kLatency, .bytes = bytes}, 1);
  record.kind = "stages";
  record.bytes = bytes;
  record.outstanding = 1;
  const std::string address = scheme == Scheme::kTcp
                                  ? "tcp://127.0.0.1:0"
                                  : "shm://farcall-stages-" + std::to_string(::getpid());
  const absl::StatusOr<ChildProcess> program = ChildProcess::Start(
      {.command = {FolderOfThisProgram() + "/farcall_stages", address, NameOf(mode),
                   std::to_string(bytes), kDurationMs, CoreOf(cores.client), CoreOf(cores.server)},
       .core = {},
       .ready_prefix = "stages ",
       .ready_timeout = kPatience});
  if (!program.ok()) return program.status();
  const absl::Status read = ReadStages(program->ready_line(), record);
  if (!read.ok()) return read;
  return record;
}

}  // namespace

absl::Status ReadStages(std::string_view line, Record& record) {
  std::istringstream words{std::string(line)};
  Stages stages;
  words >> record.samples >> record.p50_us >> stages.probes;
  for (const auto& [name, stage] : kStages) words >> stages.*stage;
  if (!words || record.samples == 0) {
    return absl::InvalidArgumentError("no stages of a call: '" + std::string(line) + "'");
  }
  record.stages = stages;
  record.mean_us = 0;
  for (const auto& [name, stage] : kStages) record.mean_us += stages.*stage;
  return absl::OkStatus();
}

Outcome MeasureStages(const Cores& cores, const Progress& progress) {
  Outcome outcome;
  int number = 0;
  for (const Mode mode : {Mode::kBusy, Mode::kEvent}) {
    for (const Scheme scheme : {Scheme::kTcp, Scheme::kShm}) {
      for (const size_t bytes : kSizes) {
        const std::string what =
            "stages of " + FormatBytes(bytes) + ", " + TransportOf(scheme) + " " + NameOf(mode);
        progress(++number, static_cast<int>(4 * std::size(kSizes)), what);
        absl::StatusOr<Record> record = MeasureOne(scheme, mode, bytes, cores);
        if (!record.ok()) {
          outcome.status = absl::Status(record.status().code(),
                                        what + ": " + std::string(record.status().message()));
          return outcome;
        }
        outcome.records.push_back(*std::move(record));
      }
    }
  }
  return outcome;
}

}  // namespace farcall::bench
