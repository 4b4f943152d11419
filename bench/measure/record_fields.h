// The fields of a record by name, for whoever writes or reads them.
#ifndef FARCALL_BENCH_MEASURE_RECORD_FIELDS_H_
#define FARCALL_BENCH_MEASURE_RECORD_FIELDS_H_

#include "farcall/bench/measure/record.h"

namespace farcall::bench {

// A figure that says nothing, and is left out, when it is 0.
struct UnlessZero {};

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
  field("allocations_per_call", record.allocations_per_call);
  field("copied_bytes_per_call", record.copied_bytes_per_call);
  field("syscalls_per_call", record.syscalls_per_call);
  field("context_switches_per_call", record.context_switches_per_call);
  field("send_calls_per_call", record.send_calls_per_call);
  field("receive_calls_per_call", record.receive_calls_per_call);
  field("client_copied_bytes_per_call", record.client_copied_bytes_per_call);
  field("sends_per_call", record.sends_per_call);
  field("reads_per_call", record.reads_per_call);
  field("doorbells_per_call", record.doorbells_per_call);
  field("signalled_per_call", record.signalled_per_call);
  field("registrations_per_call", record.registrations_per_call);
}

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_RECORD_FIELDS_H_
