// The fields of a record by name, for whoever writes or reads them.
#ifndef FARCALL_BENCH_MEASURE_RECORD_FIELDS_H_
#define FARCALL_BENCH_MEASURE_RECORD_FIELDS_H_

#include <optional>
#include <string>
#include <type_traits>

#include "farcall/bench/measure/record.h"

namespace farcall::bench {

// A figure that says nothing, and is left out, when it is 0.
struct UnlessZero {};

// A figure that `whole` consists of. `MaybeWhole` is an optional or a const one; who sets the
// figure makes the whole of it.
template <typename MaybeWhole, typename Whole, typename Field>
void FieldOfPart(const char* name, MaybeWhole& whole, double Whole::*part, Field&& field) {
  std::optional<double> value;
  if (whole) value = (*whole).*part;
  field(name, value);
  if constexpr (!std::is_const_v<MaybeWhole>) {
    if (!value) return;
    if (!whole) whole.emplace();
    (*whole).*part = *value;
  }
}

// Calls `field(name, value)` or `field(name, value, UnlessZero())` for each, in the order of the
// file. `OneRecord` is Record or const Record.
template <typename OneRecord, typename Field>
void ForEachField(OneRecord& record, Field&& field) {
  field("transport", record.transport);
  field("device", record.device);
  field("mode", record.mode);
  field("case", record.kind);
  field("path", record.path);
  field("bytes", record.bytes);
  field("outstanding", record.outstanding);
  field("connections", record.connections);
  field("idle_connections", record.idle_connections, UnlessZero());
  field("beside_bytes", record.beside_bytes, UnlessZero());
  field("load_percent", record.load_percent, UnlessZero());
  field("threshold", record.threshold);
  field("round", record.round);
  field("core_distance_ns", record.core_distance_ns);
  field("samples", record.samples);
  field("errors", record.errors);
  field("p50_us", record.p50_us);
  field("p90_us", record.p90_us);
  field("p99_us", record.p99_us);
  field("p999_us", record.p999_us);
  field("mean_us", record.mean_us);
  field("calls_per_s", record.calls_per_s);
  field("mb_per_s", record.mb_per_s);
  field("cpu_us_per_call", record.cpu_us_per_call);
  field("allocations_per_call", record.costs.allocations);
  field("copied_bytes_per_call", record.costs.copied_bytes);
  field("syscalls_per_call", record.costs.syscalls);
  field("context_switches_per_call", record.costs.context_switches);
  field("send_calls_per_call", record.costs.send_calls);
  field("receive_calls_per_call", record.costs.receive_calls);
  field("sends_per_call", record.costs.sends);
  field("reads_per_call", record.costs.reads);
  field("doorbells_per_call", record.costs.doorbells);
  field("signalled_per_call", record.costs.signalled);
  field("registrations_per_call", record.costs.registrations);
  for (const auto& [name, stage] : kStages) {
    FieldOfPart((std::string("stage_") + name + "_us").c_str(), record.stages, stage, field);
  }
  FieldOfPart("stage_probes_us", record.stages, &Stages::probes, field);
  FieldOfPart("estimate_round_trips", record.estimate, &Estimate::round_trips, field);
  FieldOfPart("estimate_network_us", record.estimate, &Estimate::network_us, field);
  FieldOfPart("estimate_transfer_us", record.estimate, &Estimate::transfer_us, field);
  FieldOfPart("estimate_own_us", record.estimate, &Estimate::own_us, field);
}

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_RECORD_FIELDS_H_
