#include "farcall/tests/fuzz/body.h"

#include <cstring>
#include <new>
#include <vector>

namespace farcall::fuzz {
namespace {

// flatc's Pack cannot write what its UnPackTo makes of a union that has a type and no value, nor
// elements of NONE or of an unknown type.
void DropNothings(EverythingT& all) {
  std::erase_if(all.things, [](const ThingUnion& thing) { return thing.value == nullptr; });
  for (ThingUnion& thing : all.things) {
    if (EverythingT* tree = thing.AsTree()) DropNothings(*tree);
  }
  if (all.thing.value == nullptr) all.thing.Reset();
  if (EverythingT* tree = all.thing.AsTree()) DropNothings(*tree);
  if (all.tree) DropNothings(*all.tree);
  for (const auto& tree : all.trees) DropNothings(*tree);
}

}  // namespace

EverythingT Sample(uint64_t number, int depth) {
  EverythingT all;
  all.yes = true;
  all.tiny = -1;
  all.middle = 1 << 20;
  all.number = number;
  all.real = 0.5F;
  all.maybe = 9;
  all.colour = Colour::Blue;
  all.marks = Marks::Last;
  all.text = "text";
  const Point point(1, 2, 3);
  const int16_t sizes[] = {1, -2, 3};
  const Box box(point, sizes, Colour::Red);
  all.point = std::make_unique<Point>(point);
  all.box = std::make_unique<Box>(box);
  LeafT leaf;
  leaf.id = number;
  leaf.name = "leaf";
  all.leaf = std::make_unique<LeafT>(leaf);
  all.flags = {true, false};
  all.bytes = {1, 2, 3};
  all.numbers = {-1, 1};
  all.colours = {Colour::Red, Colour::Green};
  all.texts = {"", "one"};
  all.points = {point};
  all.boxes = {box, box};
  all.leaves.push_back(std::make_unique<LeafT>(leaf));
  flatbuffers::FlatBufferBuilder nested;
  nested.Finish(CreateLeaf(nested, &leaf));
  all.nested.assign(nested.GetBufferPointer(), nested.GetBufferPointer() + nested.GetSize());
  all.things.resize(3);
  all.things[0].Set(LeafT(leaf));
  all.things[1].Set(Point(point));
  all.things[2].type = Thing::Words;
  all.things[2].value = new std::string("words");
  if (depth > 0) {
    all.tree = std::make_unique<EverythingT>(Sample(number + 1, depth - 1));
    all.trees.push_back(std::make_unique<EverythingT>(Sample(number + 2, 0)));
    all.thing.Set(Sample(number + 3, 0));
  }
  return all;
}

Buffer MakeBody(const std::shared_ptr<BufferPool>& pool, std::string_view text, uint64_t number) {
  Builder<Everything> builder(pool, 0);
  const auto at = builder.CreateString(text.data(), text.size());
  EverythingBuilder all(builder);
  all.add_number(number);
  all.add_text(at);
  builder.Finish(all.Finish());
  return *builder.Release();
}

Buffer TightBuffer(std::string_view bytes) {
  constexpr std::align_val_t kAlignment{kBufferAlignment};
  auto* memory = static_cast<std::byte*>(::operator new(bytes.size(), kAlignment));
  std::memcpy(memory, bytes.data(), bytes.size());
  return WrapBytes(
      {memory, bytes.size()}, [](void* argument) { ::operator delete(argument, kAlignment); },
      memory);
}

std::string Repack(const Everything& everything) {
  EverythingT all;
  everything.UnPackTo(&all);
  DropNothings(all);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Everything::Pack(builder, &all));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

}  // namespace farcall::fuzz
