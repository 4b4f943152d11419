// Calls whose attachments come from and arrive in memory of the user's own, on every transport.

#include <unistd.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/rpc/user_memory.h"
#include "farcall/tests/rpc/probe.h"
#include "farcall/tests/rpc/sanitized.h"
#include "farcall/transports/rdma/shm.h"
#include "farcall/transports/tcp/tcp.h"

namespace farcall::testing {
namespace {

using std::chrono::seconds;

constexpr size_t KiB = size_t{1} << 10;
constexpr size_t MiB = size_t{1} << 20;

// Bytes come in rows of one value.
constexpr size_t kStride = 512;
std::byte ByteOf(uint64_t call, size_t at) {
  return static_cast<std::byte>(call * 31 + at / kStride);
}

void Fill(uint64_t call, std::span<std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kStride) {
    std::fill_n(bytes.data() + at, std::min(kStride, bytes.size() - at), ByteOf(call, at));
  }
}

bool IsOf(uint64_t call, std::span<const std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != ByteOf(call, i)) return false;
  }
  return true;
}

// Answers with an attachment of `number` bytes, which say how many bytes came.
class StoreImpl : public ProbeImpl {
 public:
  absl::Status Do(Context& context, const Ask& request, Reply<Answer>& reply) {
    if (context.attachment() && !IsOf(request.data()->Get(0), context.attachment().bytes())) {
      return absl::DataLossError("the request's attachment is not what was sent");
    }
    absl::StatusOr<Buffer> attachment = reply.AllocateAttachment(request.number());
    if (!attachment.ok()) return attachment.status();
    Fill(request.data()->Get(0), attachment->bytes());
    reply.Attach(*std::move(attachment));
    reply.Finish(CreateAnswer(reply, 0, request.number(), 0));
    return absl::OkStatus();
  }
};

struct Road {
  std::string name;
  std::function<std::shared_ptr<Transport>()> make;
  std::string address;
  size_t uncopied_from;  // attachments of so many bytes and more are received in place
};

std::string ShmName() {
  static int names = 0;
  return "shm://user-" + std::to_string(::getpid()) + "-" + std::to_string(++names);
}

std::vector<Road> Roads() {
  return {
      {"tcp", [] { return MakeTcpTransport({}); }, "tcp://127.0.0.1:0", 256 * KiB},
      {"loopback",
       [] {
         return MakeLoopbackTransport({.network = MakeLoopbackNetwork(), .pool = {}, .limits = {}});
       },
       "loopback://store", SIZE_MAX},  // has one memory: to move a payload is to copy it
      {"shm", [] { return MakeShmTransport(); }, ShmName(), 9 * KiB}};
}

struct Store {
  explicit Store(const Road& road) : transport(road.make()), server(ServerOptions{}) {
    REQUIRE(server.Add(Probe::Bind(impl)).ok());
    endpoint = server.Listen(transport, ParseEndpoint(road.address).value()).value();
  }
  StoreImpl impl;
  std::shared_ptr<Transport> transport;
  Server server;
  Endpoint endpoint;
};

Builder<Ask> Asking(Probe::Client& client, uint64_t call, size_t bytes) {
  Builder<Ask> request = client.NewDo();
  const auto number = static_cast<uint8_t>(call);
  const auto data = request.CreateVector(&number, 1);
  request.Finish(CreateAsk(request, 0, bytes, data));
  return request;
}

uint64_t Copied(const Channel& channel) {
  uint64_t copied = 0;
  for (const ConnectionStats& connection : channel.metrics().connections) {
    copied += connection.counters.payload_bytes_copied;
  }
  return copied;
}

TEST_CASE("attachments of every size come into user memory, on every transport") {
  for (const Road& road : Roads()) {
    Store store(road);
    Channel channel(store.transport, store.endpoint);
    Probe::Client client(channel);
    std::vector<std::byte> bytes(4 * MiB);
    const auto memory = UserMemory::Register(bytes).value();
    for (const size_t size : {size_t{0}, size_t{1}, 8 * KiB - 1, 8 * KiB, 8 * KiB + 1, 64 * KiB,
                              64 * KiB + 1, 256 * KiB, 256 * KiB + 1, 3 * MiB}) {
      INFO(road.name << ", " << size << " bytes");
      const uint64_t copied = Copied(channel);
      Buffer place = memory->Slice(7, size).value();
      const auto reply = client.Do(Asking(client, size, size), {.attachment_into = &place});
      REQUIRE(reply.ok());
      CHECK(reply->attachment().size() == size);
      CHECK(IsOf(static_cast<uint8_t>(size), reply->attachment().bytes()));
      CHECK(static_cast<bool>(place) == (size == 0));
      if (size > 0) CHECK(reply->attachment().data() == bytes.data() + 7);
      // The answer's own few bytes may be.
      if (size >= road.uncopied_from) CHECK(Copied(channel) - copied <= reply->bytes().size());
    }
    CHECK(!memory->in_use());
  }
}

TEST_CASE("a thousand calls there and back in one piece of user memory") {
  constexpr size_t kSize = 20 * KiB;
  for (const Road& road : Roads()) {
    INFO(road.name);
    Store store(road);
    Channel channel(store.transport, store.endpoint);
    Probe::Client client(channel);
    std::vector<std::byte> bytes(2 * kSize);
    const auto memory = UserMemory::Register(bytes).value();
    for (uint64_t call = 0; call < 1000; ++call) {
      Builder<Ask> request = Asking(client, call % 200, kSize);
      Buffer there = memory->Slice(0, kSize).value();
      Fill(call % 200, there.bytes());
      request.Attach(std::move(there));
      Buffer place = memory->Slice(kSize, kSize).value();
      const auto reply = client.Do(std::move(request), {.attachment_into = &place});
      REQUIRE(reply.ok());
      REQUIRE(reply->attachment().data() == bytes.data() + kSize);
      REQUIRE(IsOf(call % 200, reply->attachment().bytes()));
    }
    CHECK(Eventually([&] { return !memory->in_use(); }));
  }
}

// READs that take their time are in the middle when the call ends.
TEST_CASE(
    "calls that end while their attachment is read: the memory comes back, and is left alone") {
  ShmOptions options;
  options.rdma.chunk_bytes = 64 << 10;
  options.device.faults.faults = {{.kind = softnic::Fault::Kind::kLateCompletion,
                                   .on = rdma::Opcode::kRead,
                                   .one_in = 1,
                                   .polls = 100}};
  const Road road{"shm", [options] { return MakeShmTransport(options); }, ShmName(), 0};
  Store store(road);
  Channel channel(store.transport, store.endpoint);
  Probe::Client client(channel);
  constexpr size_t kSize = 8 * MiB;
  std::vector<std::byte> bytes(kSize);
  const auto memory = UserMemory::Register(bytes).value();
  size_t cut_off = 0;
  for (int call = 0; call < (kSanitized ? 20 : 60); ++call) {
    Buffer place = memory->Slice(0, kSize).value();
    const auto timeout = std::chrono::microseconds(200 * (1 + call % 30));
    bool whole = false;
    if (call % 2 == 0) {
      const auto reply = client.Do(Asking(client, static_cast<uint64_t>(call), kSize),
                                   {.timeout = timeout, .attachment_into = &place});
      if (!reply.ok()) CHECK(reply.status().code() == absl::StatusCode::kDeadlineExceeded);
      whole = reply.ok();
      if (whole) CHECK(IsOf(static_cast<uint64_t>(call), reply->attachment().bytes()));
    } else {
      asio::cancellation_signal cancel;
      std::atomic<bool> done = false, emitted = false;
      client.AsyncDo(Asking(client, static_cast<uint64_t>(call), kSize),
                     {.timeout = seconds(20), .attachment_into = &place},
                     asio::bind_cancellation_slot(cancel.slot(), [&](const auto& reply) {
                       whole = reply.ok();
                       done = true;
                     }));
      // Looks in every turn: some turns after the memory was taken it is being written to.
      int turns = call % 14;
      std::function<void()> look = [&] {
        const bool now = !done && !place && turns-- <= 0;
        if (now) cancel.emit(asio::cancellation_type::terminal);
        if (now || done) {
          emitted = true;
        } else {
          channel.loop().Post([&] { look(); });
        }
      };
      channel.loop().Post([&] { look(); });
      REQUIRE(Eventually([&] { return done.load() && emitted.load(); }));
    }
    if (!whole && !place) ++cut_off;
    place.Reset();
    REQUIRE(Eventually([&] { return !memory->in_use(); }));
    std::fill(bytes.begin(), bytes.end(), std::byte{0xc5});
    if (!whole) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(std::all_of(bytes.begin(), bytes.end(),
                      [](std::byte byte) { return byte == std::byte{0xc5}; }));
  }
  CHECK(cut_off > 0);
}

}  // namespace
}  // namespace farcall::testing
