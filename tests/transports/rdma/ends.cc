#include "farcall/tests/transports/rdma/ends.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "farcall/tests/from_environment.h"

namespace farcall::rdma::testing {
namespace {

const auto kPatience = farcall::testing::Patience(std::chrono::seconds(10));

std::byte Pattern(size_t i, uint32_t seed) {
  return static_cast<std::byte>((i * 2654435761U >> 7) + seed);
}

template <typename T>
T Wanted(absl::StatusOr<T> made) {
  INFO(made.status().ToString());
  REQUIRE(made.ok());
  return *std::move(made);
}

}  // namespace

End::End(Device& device, EndOptions its_options) : options(its_options) {
  domain = Wanted(device.CreateProtectionDomain());
  queue = Wanted(device.CreateCompletionQueue(options.completion_depth));
  channel = Wanted(device.CreateEventChannel());
  region = Wanted(domain->Allocate(
      options.memory, {.local_write = true,
                       .remote_read = true,
                       .remote_write = device.capabilities().read_sink_needs_remote_write,
                       .bind = device.capabilities().windows}));
}

void End::MakePair(std::unique_ptr<ConnectionId> connection) {
  id = std::move(connection);
  pair = Wanted(id->CreateQueuePair(*domain, {.send_queue = queue.get(),
                                              .receive_queue = queue.get(),
                                              .send_depth = options.send_depth,
                                              .receive_depth = options.receive_depth,
                                              .max_inline = options.max_inline}));
}

absl::Status End::Post(const SendRequest& request) {
  size_t posted = 0;
  absl::Status status = pair->PostSend(std::span(&request, 1), posted);
  CHECK(posted == (status.ok() ? 1 : 0));
  return status;
}

absl::Status End::Post(const ReceiveRequest& request) {
  size_t posted = 0;
  absl::Status status = pair->PostReceive(std::span(&request, 1), posted);
  CHECK(posted == (status.ok() ? 1 : 0));
  return status;
}

Sge End::At(size_t offset, uint32_t bytes) const { return {memory(offset), bytes, region->lkey()}; }

void End::Receive(uint64_t wr_id, size_t offset, uint32_t bytes) {
  REQUIRE(Post(ReceiveRequest{wr_id, At(offset, bytes)}).ok());
}

void End::Send(uint64_t wr_id, size_t offset, uint32_t bytes, bool signaled) {
  SendRequest request;
  request.wr_id = wr_id;
  request.signaled = signaled;
  request.sge_count = 1;
  request.sges[0] = At(offset, bytes);
  REQUIRE(Post(request).ok());
}

void End::Read(uint64_t wr_id, size_t offset, uint32_t bytes, uint64_t address, uint32_t rkey) {
  SendRequest request;
  request.wr_id = wr_id;
  request.opcode = Opcode::kRead;
  request.sge_count = 1;
  request.sges[0] = At(offset, bytes);
  request.remote_address = address;
  request.rkey = rkey;
  REQUIRE(Post(request).ok());
}

void End::Fill(size_t offset, size_t bytes, uint32_t seed) {
  for (size_t i = 0; i < bytes; ++i) memory(offset)[i] = Pattern(i, seed);
}

bool End::Holds(size_t offset, size_t bytes, uint32_t seed) const {
  for (size_t i = 0; i < bytes; ++i) {
    if (memory(offset)[i] != Pattern(i, seed)) return false;
  }
  return true;
}

void End::Turn() {
  Completion done[8];
  const size_t count = queue->Poll(done);
  completions.insert(completions.end(), done, done + count);
  while (std::optional<ConnectionEvent> event = channel->Next()) {
    events.push_back(*std::move(event));
  }
}

bool TurnUntil(End& one, End& other, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    one.Turn();
    other.Turn();
  }
  return true;
}

Completion End::NextCompletion(End& other) {
  REQUIRE(TurnUntil(*this, other, [&] { return !completions.empty(); }));
  const Completion completion = completions.front();
  completions.pop_front();
  return completion;
}

ConnectionEvent End::NextEvent(End& other) {
  REQUIRE(TurnUntil(*this, other, [&] { return !events.empty(); }));
  ConnectionEvent event = std::move(events.front());
  events.pop_front();
  return event;
}

Pair::Pair(Device& device, const std::string& address, EndOptions active_options,
           EndOptions passive_options)
    : active(device, active_options), passive(device, passive_options) {
  using Kind = ConnectionEvent::Kind;
  const std::unique_ptr<AddressListener> listener =
      Wanted(device.Listen(*passive.channel, address));
  std::unique_ptr<ConnectionId> id = Wanted(device.Resolve(*active.channel, listener->address()));
  REQUIRE(active.NextEvent(passive).kind == Kind::kResolved);
  active.MakePair(std::move(id));
  REQUIRE(active.id->Connect({.rnr_retry = active_options.rnr_retry}).ok());
  ConnectionEvent request = passive.NextEvent(active);
  REQUIRE(request.kind == Kind::kConnectRequest);
  passive.MakePair(std::move(request.request));
  REQUIRE(passive.id->Accept({.rnr_retry = passive_options.rnr_retry}).ok());
  REQUIRE(active.NextEvent(passive).kind == Kind::kEstablished);
  REQUIRE(passive.NextEvent(active).kind == Kind::kEstablished);
}

bool Pair::Quiet() {
  for (int i = 0; i < 200; ++i) {
    active.Turn();
    passive.Turn();
  }
  return active.completions.empty() && passive.completions.empty() && active.events.empty() &&
         passive.events.empty();
}

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string Text(const std::vector<std::byte>& bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace farcall::rdma::testing
