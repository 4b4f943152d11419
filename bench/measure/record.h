// The records of a run, and the JSON file that they are kept in.
#ifndef FARCALL_BENCH_MEASURE_RECORD_H_
#define FARCALL_BENCH_MEASURE_RECORD_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "farcall/bench/measure/workload.h"

namespace farcall::bench {

// What a call costs besides time, client and server added. Counted in a pass of its own, once for
// all rounds. In the file each is a field of the record.
struct Costs {
  // Of the processes (measure/process_counters.h).
  std::optional<double> syscalls;
  std::optional<double> context_switches;
  std::optional<double> allocations;  // from the heap
  // By the connection (rpc/transport.h): payload that the CPU copied in user space; system calls
  // that moved data, or lists of work requests, and what they brought.
  std::optional<double> copied_bytes;
  std::optional<double> send_calls;
  std::optional<double> receive_calls;
  // By a connection over an RDMA device (transports/rdma/rdma.h).
  std::optional<double> sends;
  std::optional<double> reads;
  std::optional<double> doorbells;
  std::optional<double> signalled;  // work requests with a completion
  std::optional<double> registrations;
};

// Where the time of a call goes, both ways added, in the order of a call: parts of its whole time,
// in microseconds.
struct Stages {
  double build = 0;     // the request, and what makes a call of it
  double post = 0;      // the transport gives it to the device or the kernel
  double wire = 0;      // until the other side looks, or was woken up
  double poll = 0;      // the look that finds it, and its head is taken in
  double payload = 0;   // what is on its way still
  double verify = 0;    // the request is found to be sound
  double dispatch = 0;  // until the handler runs
  double handler = 0;
  double reply = 0;   // becomes a message
  double finish = 0;  // the caller has the reply, and has checked it
  double probes = 0;  // in all of them: what looking at the clock costs
};
inline constexpr std::array<std::pair<const char*, double Stages::*>, 10> kStages = {{
    {"build", &Stages::build},
    {"post", &Stages::post},
    {"wire", &Stages::wire},
    {"poll", &Stages::poll},
    {"payload", &Stages::payload},
    {"verify", &Stages::verify},
    {"dispatch", &Stages::dispatch},
    {"handler", &Stages::handler},
    {"reply", &Stages::reply},
    {"finish", &Stages::finish},
}};

// What a call would take elsewhere (report/estimate.h).
struct Estimate {
  double round_trips = 0;
  double network_us = 0;
  double transfer_us = 0;
  double own_us = 0;
};

// One case, measured in one round. An empty optional was not measured and is left out of the file:
// 0 would be a claim.
struct Record {
  std::string transport;  // "tcp", "loopback", "floor/tcp", …
  std::string device;     // "kernel", …
  std::string mode;       // NameOf(Mode)
  std::string kind;       // NameOf(Case); "case" in the file
  std::string path;       // "eager", "rendezvous", "stream"
  uint64_t bytes = 0;
  uint64_t outstanding = 0;
  uint64_t connections = 1;
  uint64_t idle_connections = 0;      // as Workload; left out of the file when 0
  uint64_t beside_bytes = 0;          // likewise
  uint64_t load_percent = 0;          // likewise
  std::optional<uint64_t> threshold;  // payloads up to it were forced to be eager, all others not
  uint64_t round = 0;
  std::optional<double> core_distance_ns;

  uint64_t samples = 0;
  uint64_t errors = 0;
  double p50_us = 0;
  double p90_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double mean_us = 0;
  double calls_per_s = 0;
  // 10^6 bytes of payload in the measured direction; beside payloads, of these.
  double mb_per_s = 0;
  std::optional<double> cpu_us_per_call;
  Costs costs;
  std::optional<Stages> stages;  // of records of case "stages" alone
  std::optional<Estimate>
      estimate;  // of records of case "estimate" alone: p50_us is no measurement

  // As by default: one connection, nothing beside it, nothing forced.
  bool alone() const {
    return connections == 1 && idle_connections == 0 && beside_bytes == 0 && !threshold;
  }
};

// Sets `record`'s workload and its figures from samples on. Requires at least one sample.
void SetFigures(const Workload& workload, const Measurement& measurement, Record& record);

// Names and values, in the order in which they are written.
using Facts = std::vector<std::pair<std::string, std::variant<std::string, double>>>;

struct Report {
  Facts machine;
  Facts versions;
  Facts settings;
  std::vector<Record> records;
};

// The report as JSON text: {"machine": {…}, "versions": {…}, "settings": {…}, "records": […]}.
// A figure that is no finite number is left out, as JSON cannot say it.
std::string ToJson(const Report& report);

// The records for a spreadsheet: a line of names as in the JSON file, then a line a record
// (RFC 4180). What was not measured is empty.
std::string ToCsv(const std::vector<Record>& records);

// This machine: processor, number of cores, memory, kernel, hypervisor or not.
Facts DescribeMachine();

// Compiler, C library, and whether this was built with optimisation.
Facts DescribeToolchain();

}  // namespace farcall::bench

#endif  // FARCALL_BENCH_MEASURE_RECORD_H_
