// A report as a page that needs nothing else: no network, no script.
#ifndef FARCALL_BENCH_REPORT_HTML_H_
#define FARCALL_BENCH_REPORT_HTML_H_

#include <string>

#include "farcall/bench/report/model.h"

namespace farcall::bench {

std::string ToHtml(const ReportModel& model);

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_REPORT_HTML_H_
