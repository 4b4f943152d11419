// Reads what ToJson (measure/record.h) wrote: runs that were made elsewhere, for one page.
#ifndef FARCALL_BENCH_MEASURE_READ_REPORT_H_
#define FARCALL_BENCH_MEASURE_READ_REPORT_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "farcall/bench/measure/record.h"

namespace farcall::bench {

// Pure. Takes what ToJson writes and no other JSON. INVALID_ARGUMENT: what is wrong, and at which
// byte.
absl::StatusOr<Report> ReadReport(std::string_view json);

// Adds the records of another run, and the facts that `to` has none of by that name.
void AddReport(const Report& from, Report& to);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_READ_REPORT_H_
