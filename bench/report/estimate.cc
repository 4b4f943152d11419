#include "farcall/bench/report/estimate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "farcall/bench/measure/table.h"

namespace farcall::bench {
namespace {

bool Spinning(const Record& record) {
  return record.transport == "shm" && record.mode == NameOf(Mode::kBusy);
}

// A request and a reply that travel in their messages are one round trip. By rendezvous the offers
// take as long, and each side then reads once more, all chunks at once.
int RoundTrips(const Costs& costs) { return costs.reads.value_or(0) > 0 ? 3 : 1; }

}  // namespace

// Published figures, of one generation of adapters.
const RoceCosts kRoceCosts = {
    .round_trip_us = 2.3,
    .bytes_per_us = 12'500,
    .sources =
        "Sources: 2.3 us is a small RPC there and back over Ethernet, its library included, in "
        "Kalia, Kaminsky and Andersen, 'Datacenter RPCs can be General and Fast' (USENIX NSDI "
        "2019): more than the network and the adapters alone. 100 Gb/s, 12.5 GB/s, is the nominal "
        "rate of a port; one core of that paper's reaches 75 Gb/s."};

std::vector<RoceEstimate> EstimateRoce(const std::vector<Record>& records) {
  std::vector<RoceEstimate> estimates;
  for (const Record& stages : records) {
    if (!Spinning(stages) || !stages.stages) continue;
    const auto counted = std::find_if(records.begin(), records.end(), [&](const Record& of) {
      return Spinning(of) && of.kind == NameOf(Case::kLatency) && of.bytes == stages.bytes &&
             of.alone() && of.costs.sends && of.costs.reads;
    });
    if (counted == records.end()) continue;
    RoceEstimate estimate{.bytes = stages.bytes,
                          .counted = counted->costs,
                          .round_trips = RoundTrips(counted->costs)};
    estimate.network_us = estimate.round_trips * kRoceCosts.round_trip_us;
    estimate.transfer_us = 2 * static_cast<double>(stages.bytes) / kRoceCosts.bytes_per_us;
    estimate.own_us = stages.mean_us - stages.stages->wire - stages.stages->payload;
    estimates.push_back(std::move(estimate));
  }
  return estimates;
}

std::optional<CostTable> RoceTable(const std::vector<RoceEstimate>& estimates) {
  if (estimates.empty()) return std::nullopt;
  CostTable table{
      .title = "An estimate, not a measurement: the same calls over RoCE adapters",
      .caption =
          "Operations of a call as they were counted here, on the software NIC, which is posted "
          "what an adapter would be posted; times what an adapter takes for them. A payload in its "
          "message takes one round trip of the network; one by rendezvous takes three, one after "
          "the other: the offers there and back, and a READ on each side, whose chunks are asked "
          "for at once. Round trips take " +
          ShortNumber(kRoceCosts.round_trip_us) +
          " us each; bytes are added at 100 Gb/s both ways. Our own steps are those measured "
          "above, without wire and payload, on this machine. Left out: switches, congestion, and "
          "that an adapter's doorbell and completion cross PCIe where ours cross a cache; the "
          "published round trip has them once. " +
          kRoceCosts.sources,
      .columns = {"SENDs", "READs", "doorbells", "round trips in a row", "these, us", "bytes, us",
                  "own steps, us", "a call, us: estimate"},
      .rows = {}};
  for (const RoceEstimate& of : estimates) {
    table.rows.push_back({FormatBytes(of.bytes),
                          {of.counted.sends, of.counted.reads, of.counted.doorbells, of.round_trips,
                           of.network_us, of.transfer_us, of.own_us, of.call_us()}});
  }
  return table;
}

std::vector<Record> RoceRecords(const std::vector<RoceEstimate>& estimates) {
  std::vector<Record> records;
  for (const RoceEstimate& of : estimates) {
    Record record;
    record.transport = "estimate/roce";
    record.device = "none";
    record.mode = NameOf(Mode::kBusy);
    record.kind = "estimate";
    record.path = of.round_trips == 1 ? "eager" : "rendezvous";
    record.bytes = of.bytes;
    record.outstanding = 1;
    record.p50_us = of.call_us();
    record.costs = of.counted;
    record.estimate = Estimate{.round_trips = static_cast<double>(of.round_trips),
                               .network_us = of.network_us,
                               .transfer_us = of.transfer_us,
                               .own_us = of.own_us};
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace farcall::bench
