// What the object API would take, told before it takes it.

#include "farcall/rpc/unpack_plan.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farcall/rpc/channel.h"
#include "farcall/rpc/msg.h"
#include "farcall/rpc/server.h"
#include "farcall/tests/rpc/heap_count.h"
#include "farcall/transports/loopback/loopback.h"
#include "unpack.rpc.h"

namespace farcall::testing {
namespace {

using Bytes = Builder<Everything>;

std::shared_ptr<BufferPool> Pool() { return std::make_shared<BufferPool>(); }

std::shared_ptr<const UnpackPlan> Plan() {
  return UnpackPlan::Of(Unpacker::info(), Unpacker::CountMethod::info());
}

std::unique_ptr<LeafT> LeafOf(size_t name_bytes) {
  auto leaf = std::make_unique<LeafT>();
  leaf->name = std::string(name_bytes, 'n');
  return leaf;
}

struct Sample {
  std::string name;
  std::function<void(EverythingT&)> fill;
};

std::vector<Sample> Samples() {
  return {
      {"nothing", [](EverythingT&) {}},
      {"a short string", [](EverythingT& to) { to.text = "short"; }},
      {"a long string", [](EverythingT& to) { to.text = std::string(5000, 'x'); }},
      {"a struct",
       [](EverythingT& to) { to.point = std::make_unique<Point>(1.F, 2.0, uint8_t{3}); }},
      {"a table", [](EverythingT& to) { to.leaf = LeafOf(100); }},
      {"a table of its own kind",
       [](EverythingT& to) {
         to.tree = std::make_unique<EverythingT>();
         to.tree->tree = std::make_unique<EverythingT>();
         to.tree->tree->text = std::string(500, 'x');
       }},
      {"bytes", [](EverythingT& to) { to.bytes.resize(10000); }},
      {"numbers", [](EverythingT& to) { to.numbers.resize(1000); }},
      {"structs", [](EverythingT& to) { to.points.resize(1000); }},
      {"strings",
       [](EverythingT& to) {
         to.texts.assign(100, "short");
         to.texts.resize(200, std::string(300, 'x'));
       }},
      {"tables",
       [](EverythingT& to) {
         for (size_t i = 0; i < 100; ++i) to.leaves.push_back(LeafOf(i));
         for (size_t i = 0; i < 10; ++i) to.trees.push_back(std::make_unique<EverythingT>());
       }},
      {"a union of a table",
       [](EverythingT& to) {
         to.thing.type = Thing::Leaf;
         to.thing.value = LeafOf(200).release();
       }},
      {"a union of a struct", [](EverythingT& to) { to.thing.Set(Point(1.F, 2.0, uint8_t{3})); }},
      {"a union of a string",
       [](EverythingT& to) {
         to.thing.type = Thing::Words;
         to.thing.value = new std::string(400, 'w');
       }},
      {"unions",
       [](EverythingT& to) {
         to.things.resize(30);
         for (size_t i = 0; i < to.things.size(); ++i) {
           to.things[i].type = i % 2 == 0 ? Thing::Leaf : Thing::Words;
           if (i % 2 == 0) {
             to.things[i].value = LeafOf(i).release();
           } else {
             to.things[i].value = new std::string(40, 'w');
           }
         }
       }},
  };
}

TEST_CASE("what is told is about what unpacking takes") {
  for (const Sample& sample : Samples()) {
    CAPTURE(sample.name);
    EverythingT native;
    sample.fill(native);
    Bytes builder(Pool(), 0);
    builder.Pack(native);
    const Buffer body = *builder.Release();
    REQUIRE(VerifyBody<Everything>(body, {}).ok());

    const uint64_t count_before = HeapAllocations();
    const uint64_t bytes_before = HeapBytes();
    const std::unique_ptr<EverythingT> unpacked(
        flatbuffers::GetRoot<Everything>(body.data())->UnPack());
    const uint64_t taken = HeapBytes() - bytes_before;
    const uint64_t with_bookkeeping = taken + 16 * (HeapAllocations() - count_before);
    const uint64_t told = Plan()->Bytes(body, UINT64_MAX);
    CAPTURE(taken, with_bookkeeping);
    CHECK(told >= taken);
    CHECK(told <= with_bookkeeping + with_bookkeeping / 2);
  }
}

// 60 KB that name one string, table or tree over and over.
void Amplify(const std::string& kind, Bytes& builder) {
  const auto text = builder.CreateString(std::string(20000, 'x'));
  if (kind == "strings") {
    const std::vector<flatbuffers::Offset<flatbuffers::String>> texts(10000, text);
    const auto all = builder.CreateVector(texts);
    EverythingBuilder root(builder);
    root.add_texts(all);
    builder.Finish(root.Finish());
  } else if (kind == "tables") {
    const auto leaf = CreateLeaf(builder, 1, text);
    const auto all = builder.CreateVector(std::vector<flatbuffers::Offset<Leaf>>(10000, leaf));
    EverythingBuilder root(builder);
    root.add_leaves(all);
    builder.Finish(root.Finish());
  } else if (kind == "unions") {
    const auto types = builder.CreateVector(std::vector<Thing>(10000, Thing::Words));
    const auto all =
        builder.CreateVector(std::vector<flatbuffers::Offset<void>>(10000, text.Union()));
    EverythingBuilder root(builder);
    root.add_things_type(types);
    root.add_things(all);
    builder.Finish(root.Finish());
  } else if (kind == "small") {
    EverythingBuilder root(builder);
    root.add_text(text);
    builder.Finish(root.Finish());
  } else {  // each level names the one below ten times
    EverythingBuilder first(builder);
    first.add_text(text);
    auto tree = first.Finish();
    for (int level = 0; level < 5; ++level) {
      const auto trees =
          builder.CreateVector(std::vector<flatbuffers::Offset<Everything>>(10, tree));
      EverythingBuilder next(builder);
      next.add_trees(trees);
      tree = next.Finish();
    }
    builder.Finish(tree);
  }
}

Buffer Amplified(const std::string& kind) {
  Bytes builder(Pool(), 0);
  Amplify(kind, builder);
  return *builder.Release();
}

TEST_CASE("shared parts count each time, and the walk ends at the limit") {
  for (const std::string kind : {"strings", "tables", "unions", "trees"}) {
    CAPTURE(kind);
    const Buffer body = Amplified(kind);
    CHECK(body.size() < 130000);
    REQUIRE(VerifyBody<Everything>(body, {}).ok());
    CHECK(Plan()->Bytes(body, UINT64_MAX) > 200'000'000);
    CHECK(Plan()->Bytes(body, 1 << 20) < (1 << 20) + 500'000);

    const absl::Status refused = Plan()->Check(body, {}, "a.B/C");
    CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
    CHECK_THAT(std::string(refused.message()), Catch::Contains("a.B/C") &&
                                                   Catch::Contains("max_unpacked_bytes") &&
                                                   Catch::Contains("67108864"));
    CHECK(Plan()->Check(body, {.max_unpacked_bytes = uint64_t{1} << 40}, "").ok());
  }
}

TEST_CASE("a body may always take twice its size") {
  Bytes builder(Pool(), 0);
  EverythingT native;
  native.bytes.resize(100000);
  builder.Pack(native);
  const Buffer body = *builder.Release();
  CHECK(Plan()->Check(body, {.max_unpacked_bytes = 0}, "").ok());
}

TEST_CASE("a method that its schema does not have has no plan") {
  const MethodInfo other{.id = 1, .name = "farcall.testing.Unpacker/None"};
  CHECK(UnpackPlan::Of(Unpacker::info(), other) == nullptr);
  CHECK(UnpackPlan::Of({.name = "none", .methods = {}, .schema = {}}, other) == nullptr);
}

class ByObject {
 public:
  absl::Status Other(Context&, const NothingT&, NothingT&) { return absl::OkStatus(); }
  absl::Status Count(Context&, const EverythingT&, NothingT&) {
    ++ran;
    return absl::OkStatus();
  }
  int ran = 0;
};

class InPlace {
 public:
  absl::Status Other(Context&, const NothingT&, NothingT&) { return absl::OkStatus(); }
  absl::Status Count(Context&, const Everything&, Reply<Nothing>& reply) {
    ++ran;
    reply.Finish(CreateNothing(reply));
    return absl::OkStatus();
  }
  int ran = 0;
};

template <class Impl>
absl::Status CallWith(Impl& impl, const std::string& kind) {
  const auto transport =
      MakeLoopbackTransport({.network = MakeLoopbackNetwork(), .pool = {}, .limits = {}});
  const Endpoint endpoint = *ParseEndpoint("loopback://unpack");
  Server server;
  REQUIRE(server.Add(Unpacker::Bind(impl)).ok());
  REQUIRE(server.Listen(transport, endpoint).ok());
  Unpacker::Client client(Channel(transport, endpoint));
  auto request = client.NewCount();
  Amplify(kind, request);
  return client.Count(std::move(request)).status();
}

TEST_CASE("a request that would take too much as objects is refused; in place it is served") {
  for (const std::string kind : {"strings", "tables", "unions", "trees"}) {
    CAPTURE(kind);
    ByObject by_object;
    const uint64_t before = HeapBytes();
    const absl::Status refused = CallWith(by_object, kind);
    CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
    CHECK_THAT(std::string(refused.message()), Catch::Contains("farcall.testing.Unpacker/Count") &&
                                                   Catch::Contains("limits.max_unpacked_bytes"));
    CHECK(by_object.ran == 0);
    CHECK(HeapBytes() - before < 20'000'000);
    InPlace in_place;
    CHECK(CallWith(in_place, kind).ok());
    CHECK(in_place.ran == 1);
  }
  ByObject by_object;
  CHECK(CallWith(by_object, "small").ok());
  CHECK(by_object.ran == 1);
}

}  // namespace
}  // namespace farcall::testing
