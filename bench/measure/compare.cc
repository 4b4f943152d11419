#include "farcall/bench/measure/compare.h"

#include <algorithm>
#include <map>

namespace farcall::bench {
namespace {

// The group with the most members; of equals the first, which is the nearest.
template <typename Member>
typename std::map<CoreDistance, std::vector<Member>>::const_iterator Largest(
    const std::map<CoreDistance, std::vector<Member>>& groups) {
  return std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
}

}  // namespace

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Rounds LargestGroup(const Rounds& rounds) {
  std::map<CoreDistance, Rounds> groups;
  for (const Record& record : rounds) groups[GroupOf(record.core_distance_ns)].push_back(record);
  return Largest(groups)->second;
}

std::optional<Ratio> RatioOf(const Figure& figure, const Rounds& ours, const Rounds& other) {
  std::map<CoreDistance, std::vector<double>> groups;
  for (const Record& our : ours) {
    const CoreDistance group = GroupOf(our.core_distance_ns);
    const auto pair = std::find_if(other.begin(), other.end(), [&](const Record& candidate) {
      return candidate.round == our.round && GroupOf(candidate.core_distance_ns) == group;
    });
    if (pair == other.end() || figure(*pair) == 0) continue;
    groups[group].push_back(figure(our) / figure(*pair));
  }
  const auto largest = Largest(groups);
  if (largest == groups.end()) return std::nullopt;
  const std::vector<double>& ratios = largest->second;
  return Ratio{.median = Median(ratios),
               .lowest = *std::min_element(ratios.begin(), ratios.end()),
               .highest = *std::max_element(ratios.begin(), ratios.end()),
               .rounds = static_cast<int>(ratios.size()),
               .group = largest->first};
}

}  // namespace farcall::bench
