// CallTable: calls in flight by their ids on the wire.

#include "farcall/rpc/call_table.h"

#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

namespace farcall {

// The id that a table gave is the session's to know: the test looks where it does, in the frame.
class TableCall final : public ClientCall {
 public:
  TableCall() : ClientCall(0, PreparedCall()) {}

 private:
  void OnDone(absl::Status&& /*status*/, Message&& /*reply*/) override {}
};

namespace {

// Finds the id of a call that was put into `table` just now. Ids are (generation << 32) | index.
uint64_t Insert(CallTable& table, TableCall& call) {
  table.Insert(call);
  for (uint64_t generation = 1; generation < 1000; ++generation) {
    for (uint64_t index = 0; index < 64; ++index) {
      const uint64_t id = generation << 32 | index;
      if (table.Find(id) == &call) return id;
    }
  }
  FAIL("the call is not in the table");
  return 0;
}

TEST_CASE("an empty table finds nothing") {
  CallTable table;
  for (const uint64_t id : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, UINT64_MAX}) {
    CHECK(table.Find(id) == nullptr);
  }
  CHECK(table.size() == 0);
  CHECK(table.FindIf([](const ClientCall&) { return true; }) == nullptr);
}

TEST_CASE("a call is found by its id alone") {
  CallTable table;
  TableCall call;
  const uint64_t id = Insert(table, call);
  CHECK(id != 0);
  CHECK(table.size() == 1);
  for (int bit = 0; bit < 64; ++bit) CHECK(table.Find(id ^ (uint64_t{1} << bit)) == nullptr);
  for (const uint64_t hostile : {uint64_t{0}, uint64_t{UINT32_MAX}, UINT64_MAX, uint64_t{1} << 63,
                                 id + 1, id - 1, id << 32, id >> 32}) {
    CHECK(table.Find(hostile) == nullptr);
  }
  table.Erase(call);
  CHECK(table.Find(id) == nullptr);
  CHECK(table.size() == 0);
}

TEST_CASE("a late id does not reach the next call in its slot") {
  CallTable table;
  TableCall call;
  std::set<uint64_t> late;
  for (int i = 0; i < 100; ++i) {
    const uint64_t id = Insert(table, call);
    CHECK(late.count(id) == 0);
    for (const uint64_t old : late) CHECK(table.Find(old) == nullptr);
    table.Erase(call);
    late.insert(id);
  }
}

TEST_CASE("slots are used again: the table is as large as the most calls at once") {
  CallTable table;
  std::vector<std::unique_ptr<TableCall>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(std::make_unique<TableCall>());
  for (int round = 0; round < 5; ++round) {
    for (auto& call : calls) CHECK((Insert(table, *call) & UINT32_MAX) < 10);
    CHECK(table.size() == 10);
    for (auto& call : calls) table.Erase(*call);
    CHECK(table.size() == 0);
  }
}

TEST_CASE("FindIf and Clear see every call once") {
  CallTable table;
  std::vector<std::unique_ptr<TableCall>> calls;
  std::set<const ClientCall*> expected;
  for (int i = 0; i < 10; ++i) {
    calls.push_back(std::make_unique<TableCall>());
    table.Insert(*calls.back());
  }
  for (int i = 0; i < 10; ++i) {
    if (i % 3 == 0) {
      table.Erase(*calls[static_cast<size_t>(i)]);
    } else {
      expected.insert(calls[static_cast<size_t>(i)].get());
    }
  }
  const ClientCall* wanted = calls[4].get();
  CHECK(table.FindIf([&](const ClientCall& call) { return &call == wanted; }) == wanted);
  wanted = calls[3].get();
  CHECK(table.FindIf([&](const ClientCall& call) { return &call == wanted; }) == nullptr);
  std::set<const ClientCall*> seen;
  table.Clear([&](ClientCall& call) { CHECK(seen.insert(&call).second); });
  CHECK(seen == expected);
  CHECK(table.size() == 0);
  const uint64_t id = Insert(table, *calls[0]);
  CHECK(table.Find(id) == calls[0].get());
}

TEST_CASE("a table is what a map of ids would be, under random use") {
  constexpr uint32_t kSeed = 11;
  std::mt19937 random(kSeed);
  CallTable table;
  std::vector<std::unique_ptr<TableCall>> idle;
  std::unordered_map<uint64_t, std::unique_ptr<TableCall>> in_flight;
  std::vector<uint64_t> late;
  for (int i = 0; i < 30; ++i) idle.push_back(std::make_unique<TableCall>());
  for (int step = 0; step < 3000; ++step) {
    if (!idle.empty() && random() % 2 == 0) {
      std::unique_ptr<TableCall> call = std::move(idle.back());
      idle.pop_back();
      const uint64_t id = Insert(table, *call);
      REQUIRE(in_flight.emplace(id, std::move(call)).second);
    } else if (!in_flight.empty()) {
      auto ended = std::next(in_flight.begin(), static_cast<long>(random() % in_flight.size()));
      table.Erase(*ended->second);
      late.push_back(ended->first);
      idle.push_back(std::move(ended->second));
      in_flight.erase(ended);
    }
    REQUIRE(table.size() == in_flight.size());
    if (step % 50 != 0) continue;
    for (const auto& [id, call] : in_flight) REQUIRE(table.Find(id) == call.get());
    for (const uint64_t id : late) REQUIRE(table.Find(id) == nullptr);
  }
}

}  // namespace
}  // namespace farcall
