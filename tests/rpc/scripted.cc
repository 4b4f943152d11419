#include "farcall/tests/rpc/scripted.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <utility>

namespace farcall::testing {

World::World(TransportLimits limits)
    : loop(std::make_shared<EventLoop>(EventLoopOptions{.clock = &clock, .helper_thread = false})),
      transport(MakeLoopbackTransport(
          {.network = MakeLoopbackNetwork(), .pool = pool, .limits = limits})) {}

void World::Settle() {
  constexpr int kForEver = 100'000;
  int idle = 0;
  for (int turn = 0; idle < 3; ++turn) {
    if (turn == kForEver) FAIL("there is always something left to do");
    idle = loop->RunOnce() == 0 ? idle + 1 : 0;
  }
}

void World::Pass(Duration time) {
  clock.Advance(time);
  Settle();
}

void World::OnLoop(std::function<void()> work) {
  loop->Post(std::move(work));
  loop->RunOnce();
}

Peer::Peer(World& world, std::unique_ptr<Connection> connection, bool listens)
    : world_(world), connection_(std::move(connection)) {
  if (listens) Listen();
}

Peer::~Peer() {
  world_.OnLoop([this] { connection_.reset(); });
}

void Peer::Listen() {
  world_.loop->Post([this] { connection_->Start(*this); });
}

void Peer::Send(Message message) {
  auto kept = std::make_shared<Message>(std::move(message));
  world_.loop->Post([this, kept] { connection_->Send(std::move(*kept), {}); });
}

void Peer::Say(const FrameHeader& header, const std::vector<Field>& fields, Buffer body,
               Buffer attachment) {
  HeadBuilder head(*world_.pool);
  for (const Field& field : fields) REQUIRE(head.Add(field).ok());
  Message message;
  message.head = head.Finish(header);
  message.body = std::move(body);
  message.attachment = std::move(attachment);
  Send(std::move(message));
}

void Peer::SayRaw(std::string_view head, Buffer body) {
  Message message;
  Buffer spill;
  if (head.size() > Head::kInlineBytes) spill = *world_.pool->Allocate(head.size());
  const std::span<std::byte> place = message.head.Resize(head.size(), std::move(spill));
  std::memcpy(place.data(), head.data(), head.size());
  message.body = std::move(body);
  Send(std::move(message));
}

void Peer::SayHello(const Hello& hello) {
  Message message;
  message.head = *EncodeHello(hello, *world_.pool);
  Send(std::move(message));
}

Hello Peer::UsualHello() {
  Hello hello;
  hello.max_body_bytes = 1 << 30;
  hello.max_attachment_bytes = 1 << 30;
  hello.max_calls_in_flight = 1000;
  return hello;
}

void Peer::Close() {
  world_.OnLoop([this] { connection_->Close(absl::CancelledError("the script says so")); });
}

void Peer::CloseLater() {
  world_.loop->Post([this] { connection_->Close(absl::CancelledError("the script says so")); });
}

Heard Peer::Next() {
  REQUIRE_FALSE(heard_.empty());
  Heard first = std::move(heard_.front());
  heard_.pop_front();
  return first;
}

Heard Peer::Next(FrameType type) {
  Heard next = Next();
  REQUIRE(static_cast<int>(next.header.type) == static_cast<int>(type));
  return next;
}

Admission Peer::Admit(Ticket /*ticket*/, std::span<const std::byte> /*head*/,
                      MessageSizes /*sizes*/) {
  return {};
}

void Peer::OnMessage(Ticket /*ticket*/, Message&& message) {
  // What farcall says is well-formed, whatever it was told.
  const absl::StatusOr<FrameHeader> header = DecodeHeader(message.head.bytes());
  REQUIRE(header.ok());
  REQUIRE(CheckFields(header->type, message.head.bytes()).ok());
  Heard heard{.header = *header,
              .status = ReadStatus(*header, message.head.bytes()),
              .metadata = MetadataView(message.head.bytes()).ToMetadata(),
              .message = {}};
  heard.message = std::move(message);
  heard_.push_back(std::move(heard));
}

Buffer Garbage(World& world, size_t bytes) {
  Buffer garbage = *world.pool->Allocate(bytes);
  std::memset(garbage.data(), 0xa5, bytes);
  return garbage;
}

Buffer AskBody(World& world, const std::string& action, uint64_t number, size_t data_bytes) {
  Builder<Ask> builder(world.pool, 0);
  const auto action_at = builder.CreateString(action);
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data_at;
  if (data_bytes > 0) data_at = builder.CreateVector(std::vector<uint8_t>(data_bytes, 3));
  builder.Finish(CreateAsk(builder, action_at, number, data_at));
  return *builder.Release();
}

Buffer AnswerBody(World& world, const std::string& text, size_t data_bytes) {
  Builder<Answer> builder(world.pool, 0);
  const auto text_at = builder.CreateString(text);
  const auto data_at = builder.CreateVector(std::vector<uint8_t>(data_bytes, 3));
  builder.Finish(CreateAnswer(builder, text_at, 0, data_at));
  return *builder.Release();
}

}  // namespace farcall::testing
