#include "farcall/bench/report/targets.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>
#include <utility>

#include "farcall/bench/measure/table.h"
#include "farcall/bench/measure/workload.h"
#include "farcall/bench/report/chart.h"

namespace farcall::bench {
namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr double kAllowedIdleCost = 1.1;

// Whose record it is.
struct Who {
  const char* transport;
  const char* mode;
};

// What was run; more connections than one, what is beside them and part of the load only where they
// are said.
struct What {
  const char* kind;
  uint64_t bytes;
  uint64_t beside_bytes = 0;
  uint64_t idle_connections = 0;
  uint64_t connections = 1;
  uint64_t load_percent = 0;
};

constexpr Who kTcpBusy{"tcp", "busy"}, kTcpEvent{"tcp", "event"};
constexpr Who kShmBusy{"shm", "busy"};
constexpr Who kTcpFloorBusy{"floor/tcp", "busy"}, kTcpFloorEvent{"floor/tcp", "event"};
constexpr Who kShmFloor{"floor/shm", "busy"};
constexpr Who kUcxShm{"peer/ucx-shm", "busy"};
constexpr Who kGrpc{"peer/grpc-callback", "event"};

constexpr What kSmallCall{"latency", 32}, kSmallCalls{"throughput", 32};
constexpr What kHalfLoad{.kind = "throughput", .bytes = 32, .connections = 64, .load_percent = 50};

// The kinds of throughput with calls in flight that targets speak of.
constexpr uint64_t kInFlight = 64;

Rounds RoundsOf(const std::vector<Record>& records, const Who& who, const What& what) {
  Rounds rounds;
  std::copy_if(records.begin(), records.end(), std::back_inserter(rounds), [&](const Record& of) {
    return of.transport == who.transport && of.mode == who.mode && of.kind == what.kind &&
           of.bytes == what.bytes && of.beside_bytes == what.beside_bytes &&
           of.idle_connections == what.idle_connections && of.connections == what.connections &&
           of.load_percent == what.load_percent && !of.threshold &&
           (of.kind != NameOf(Case::kThroughput) || of.outstanding == kInFlight);
  });
  return rounds;
}

std::string Name(const Who& who) {
  const std::string name = who.transport;
  return name.starts_with("floor/shm") || name.starts_with("peer/") ? name : name + " " + who.mode;
}

std::string Name(const What& what) {
  std::string name = std::string(what.kind) + " " + FormatBytes(what.bytes);
  if (what.load_percent > 0) {
    name += " over " + std::to_string(what.connections) + " connections at " +
            std::to_string(what.load_percent) + " % of the load";
  } else if (std::string(what.kind) == NameOf(Case::kThroughput)) {
    name += ", 64 in flight";
  }
  if (what.beside_bytes > 0) name += " beside payloads of " + FormatBytes(what.beside_bytes);
  if (what.idle_connections > 0) {
    name += " beside " + std::to_string(what.idle_connections) + " idle connections";
  }
  return name;
}

Verdict Decide(std::string what, double limit, bool at_least, const std::optional<Ratio>& found) {
  const bool pass = found && (at_least ? found->median >= limit : found->median <= limit);
  return {std::move(what), (at_least ? "at least " : "at most ") + ShortNumber(limit), found, pass};
}

class Bench {
 public:
  explicit Bench(const std::vector<Record>& records) : records_(records) {}

  // A ratio within rounds, of ours to another's.
  void AtMost(double limit, const Figure& figure, const char* name, const Who& ours,
              const Who& other, const What& what) {
    Compare(limit, false, figure, name, ours, what, other, what);
  }
  void AtLeast(double limit, const Figure& figure, const char* name, const Who& ours,
               const Who& other, const What& what) {
    Compare(limit, true, figure, name, ours, what, other, what);
  }
  // Of ours to ours with nothing beside it.
  void AtMostOfAlone(double limit, const Figure& figure, const char* name, const Who& ours,
                     const What& what) {
    const What alone{what.kind, what.bytes};
    Compare(limit, false, figure, name, ours, what, ours, alone);
  }
  // What a call may cost besides time, client and server added.
  void Budget(double limit, std::optional<double> Costs::*cost, const char* name, const Who& ours,
              const What& what) {
    Rounds counted = RoundsOf(records_, ours, what);
    std::erase_if(counted, [cost](const Record& of) { return !(of.costs.*cost).has_value(); });
    std::optional<Ratio> found;
    if (!counted.empty()) {  // once for all rounds
      const double value = *(counted.front().costs.*cost);
      found = Ratio{.median = value, .lowest = value, .highest = value, .rounds = 1};
    }
    Add(Name(ours) + ", " + Name(what) + ", " + name + " a call", limit, false, found);
  }
  // A figure by itself.
  void Absolute(double limit, bool at_least, const Figure& figure, const char* unit,
                const Who& ours, const What& what) {
    const Rounds all = RoundsOf(records_, ours, what);
    std::optional<Ratio> found;
    if (!all.empty()) {
      const Rounds rounds = LargestGroup(all);
      std::vector<double> values;
      for (const Record& record : rounds) values.push_back(figure(record));
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      found = Ratio{.median = Median(values),
                    .lowest = *least,
                    .highest = *most,
                    .rounds = static_cast<int>(rounds.size()),
                    .group = GroupOf(rounds.front().core_distance_ns)};
    }
    Add(Name(ours) + ", " + Name(what) + ", " + unit, limit, at_least, found);
  }

  std::vector<Verdict> verdicts;

 private:
  void Compare(double limit, bool at_least, const Figure& figure, const char* name, const Who& ours,
               const What& what, const Who& other, const What& other_what) {
    const std::string against = std::string(ours.transport) == other.transport &&
                                        what.kind == other_what.kind &&
                                        std::string(ours.mode) == other.mode
                                    ? "alone"
                                    : Name(other);
    Add(Name(ours) + " / " + against + ", " + Name(what) + ", " + name, limit, at_least,
        RatioOf(figure, RoundsOf(records_, ours, what), RoundsOf(records_, other, other_what)));
  }
  void Add(std::string what, double limit, bool at_least, const std::optional<Ratio>& found) {
    verdicts.push_back(Decide(std::move(what), limit, at_least, found));
  }

  const std::vector<Record>& records_;
};

// ---- over the adapters of a guest, beside perftest ----

// Set for Soft-RoCE. Soft-iWARP has a thread of the kernel beside each that spins, and none.
constexpr double kGuestSmallCall = 1.6, kGuestRendezvous = 1.3, kGuestBandwidth = 0.85;
constexpr uint64_t kGuestInFlight = 4;

Rounds OnDevice(const std::vector<Record>& records, const std::string& device, const Who& who,
                const What& what, uint64_t outstanding) {
  Rounds rounds = RoundsOf(records, who, what);
  std::erase_if(rounds, [&](const Record& of) {
    return of.device != device || (outstanding != 0 && of.outstanding != outstanding);
  });
  return rounds;
}

// The operations that a call cannot do without, one after the other: twice a SEND, and of `reads`,
// when it has rounds, one.
Rounds OneAfterTheOther(const Rounds& sends, const std::optional<Rounds>& reads) {
  Rounds sums;
  for (Record sum : sends) {
    sum.p50_us *= 2;
    if (reads) {
      const auto read = std::find_if(reads->begin(), reads->end(),
                                     [&](const Record& of) { return of.round == sum.round; });
      if (read == reads->end()) continue;
      sum.p50_us += read->p50_us;
    }
    sums.push_back(sum);
  }
  return sums;
}

std::vector<Verdict> JudgeDevice(const std::vector<Record>& records, const std::string& device) {
  constexpr Who kOurs{"rdma", "busy"}, kPerftest{"floor/verbs", "busy"};
  constexpr uint64_t kReadBytes = uint64_t{64} << 10;
  const auto of_perftest = [&](const char* kind) {
    Rounds rounds;
    std::copy_if(records.begin(), records.end(), std::back_inserter(rounds), [&](const Record& of) {
      return of.transport == kPerftest.transport && of.device == device && of.kind == kind;
    });
    return rounds;
  };
  const Rounds sends = of_perftest("send_lat"), reads = of_perftest("read_lat"),
               streams = of_perftest("read_bw");
  const auto bytes_of = [](const Rounds& rounds) {
    return rounds.empty() ? std::string("…") : FormatBytes(rounds.front().bytes);
  };
  const std::string twice = "(2 x ib_send_lat of " + bytes_of(sends);
  std::vector<Verdict> verdicts;
  const auto add = [&](const std::string& what, double limit, bool at_least,
                       const std::optional<Ratio>& found) {
    verdicts.push_back(Decide(device + " busy, " + what, limit, at_least, found));
    if (!device.starts_with("rxe")) verdicts.back().must += ", if it were rxe";
  };
  add("latency 32 B / " + twice + ")", kGuestSmallCall, false,
      RatioOf(&Record::p50_us, OnDevice(records, device, kOurs, kSmallCall, 1),
              OneAfterTheOther(sends, std::nullopt)));
  add("a request of 64 KiB by rendezvous / " + twice + " + ib_read_lat)", kGuestRendezvous, false,
      RatioOf(&Record::p50_us, OnDevice(records, device, kOurs, {"bulk_request", kReadBytes}, 1),
              OneAfterTheOther(sends, reads)));
  for (const char* kind : {"bulk_request", "bulk_reply"}) {
    add(std::string(kind) + " 1 MiB, 4 in flight / ib_read_bw of " + bytes_of(streams),
        kGuestBandwidth, true,
        RatioOf(&Record::mb_per_s, OnDevice(records, device, kOurs, {kind, kMib}, kGuestInFlight),
                streams));
  }
  return verdicts;
}

// The devices that perftest ran on; none: this was no such run.
std::set<std::string> PerftestDevices(const std::vector<Record>& records) {
  std::set<std::string> devices;
  for (const Record& record : records) {
    if (record.transport == "floor/verbs") devices.insert(record.device);
  }
  return devices;
}

double CpuOf(const Record& record) { return record.cpu_us_per_call.value_or(0); }
double TailOf(const Record& record) { return record.p99_us / record.p50_us; }

// Limits of both sides together. What may happen once in some thousands of calls, such as a table
// that grows once more, is none of a steady call.
void AddBudgets(Bench& bench) {
  constexpr double kNone = 0.01;
  for (const Who& ours : {kTcpBusy, kTcpEvent, kShmBusy}) {
    bench.Budget(kNone, &Costs::allocations, "allocations", ours, kSmallCall);
  }
  for (const Who& ours : {kTcpBusy, kTcpEvent}) {
    bench.Budget(2 + kNone, &Costs::send_calls, "sends", ours, kSmallCall);
    bench.Budget(2 + kNone, &Costs::receive_calls, "receives", ours, kSmallCall);
  }
  bench.Budget(2 * 0.01, &Costs::syscalls, "system calls", kShmBusy, kSmallCall);
  bench.Budget(2 * 32, &Costs::copied_bytes, "bytes copied", kShmBusy, kSmallCall);
  bench.Budget(2 + kNone, &Costs::sends, "SENDs", kShmBusy, kSmallCall);
  bench.Budget(2 + kNone, &Costs::doorbells, "doorbells", kShmBusy, kSmallCall);
  bench.Budget(2.0 / 16, &Costs::signalled, "completions", kShmBusy, kSmallCall);
  bench.Budget(0, &Costs::registrations, "registrations", kShmBusy, kSmallCall);
  // By rendezvous: an offer and its FIN each way; a READ for each chunk of 256 KiB of the
  // attachment and one for the FlatBuffer, each way.
  const What large{"latency", kMib};
  bench.Budget(4 + kNone, &Costs::sends, "SENDs", kShmBusy, large);
  bench.Budget(2 * (4 + 1) + kNone, &Costs::reads, "READs", kShmBusy, large);
  bench.Budget(0, &Costs::copied_bytes, "bytes copied", kShmBusy, large);
  bench.Budget(0, &Costs::registrations, "registrations", kShmBusy, large);
}

}  // namespace

std::vector<Verdict> Judge(const std::vector<Record>& records) {
  if (const std::set<std::string> devices = PerftestDevices(records); !devices.empty()) {
    // An emulated machine: other targets say nothing about it.
    std::vector<Verdict> verdicts;
    for (const std::string& device : devices) {
      std::vector<Verdict> of_one = JudgeDevice(records, device);
      std::move(of_one.begin(), of_one.end(), std::back_inserter(verdicts));
    }
    return verdicts;
  }
  Bench bench(records);
  bench.AtMost(1.3, &Record::p50_us, "time", kTcpBusy, kTcpFloorBusy, kSmallCall);
  bench.AtMost(1.15, &Record::p50_us, "time", kTcpEvent, kTcpFloorEvent, kSmallCall);
  bench.Absolute(1.0, false, &Record::p50_us, "us", kShmBusy, kSmallCall);
  bench.AtMost(3, &Record::p50_us, "time", kShmBusy, kUcxShm, kSmallCall);
  bench.AtLeast(6, &Record::p50_us, "time", kTcpBusy, kShmBusy, kSmallCall);
  bench.AtMost(1.25, CpuOf, "CPU time", kTcpEvent, kTcpFloorEvent, kSmallCall);
  bench.Absolute(600e3, true, &Record::calls_per_s, "calls/s", kTcpEvent, kSmallCalls);
  bench.AtLeast(10, &Record::calls_per_s, "rate", kTcpEvent, kGrpc, kSmallCalls);
  bench.Absolute(2e6, true, &Record::calls_per_s, "calls/s", kShmBusy, kSmallCalls);
  for (const char* kind : {"bulk_request", "bulk_reply"}) {
    bench.AtLeast(0.9, &Record::mb_per_s, "rate", kTcpEvent, kTcpFloorEvent, {kind, kMib});
    for (const uint64_t bytes : {kMib, 16 * kMib}) {
      bench.AtLeast(0.8, &Record::mb_per_s, "rate", kShmBusy, kShmFloor, {kind, bytes});
      bench.AtLeast(1, &Record::mb_per_s, "rate", kShmBusy, kUcxShm, {kind, bytes});
    }
  }
  for (const Who& ours : {kTcpBusy, kTcpEvent, kShmBusy}) {
    bench.AtMostOfAlone(10, &Record::p99_us, "p99", ours, {"latency", 32, 1024 * kMib});
    bench.Absolute(5, false, TailOf, "p99 / p50", ours, kHalfLoad);
    bench.AtMostOfAlone(kAllowedIdleCost, &Record::p50_us, "time", ours, {"latency", 32, 0, 1000});
  }
  AddBudgets(bench);
  return std::move(bench.verdicts);
}

std::string ToText(const Verdict& verdict) {
  return ShortNumber(verdict.found->median) + " (" + ShortNumber(verdict.found->lowest) + " to " +
         ShortNumber(verdict.found->highest) + "), " + verdict.must + ": " +
         (verdict.pass ? "pass" : "short");
}

std::string FormatVerdicts(const std::vector<Verdict>& verdicts) {
  std::string out;
  size_t unmeasured = 0;
  for (const Verdict& verdict : verdicts) {
    if (!verdict.found) {
      ++unmeasured;
      continue;
    }
    char line[256];
    std::snprintf(line, sizeof(line), "  %-5s %-72s %9s (%s to %s), %s\n",
                  verdict.pass ? "pass" : "SHORT", verdict.what.c_str(),
                  ShortNumber(verdict.found->median).c_str(),
                  ShortNumber(verdict.found->lowest).c_str(),
                  ShortNumber(verdict.found->highest).c_str(), verdict.must.c_str());
    out += line;
  }
  if (out.empty()) return "";
  return "targets\n" + out +
         (unmeasured > 0
              ? "  " + std::to_string(unmeasured) + " more were not measured in this run\n"
              : "");
}

}  // namespace farcall::bench
