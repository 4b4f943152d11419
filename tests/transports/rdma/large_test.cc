// Calls over shared memory at the limits of sizes: of a body, of an attachment, of FlatBuffers.
//
//   FARCALL_HUGE=1 ctest -R rdma.large     # with what takes up to 17 GiB, some minutes

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <optional>
#include <string>

#include "farcall/tests/from_environment.h"
#include "farcall/tests/rpc/probe.h"
#include "farcall/tests/rpc/sanitized.h"
#include "farcall/transports/dial.h"

namespace farcall::testing {
namespace {

constexpr uint64_t GiB = uint64_t{1} << 30;
constexpr Duration kLong = std::chrono::seconds(110);

// The handler keeps its loop from answering PINGs while it looks at gigabytes.
constexpr KeepaliveOptions kPatient = {.ping_timeout = std::chrono::seconds(110)};

// Bytes that are known from their place: a word for each 8, and what is left of one.
void Fill(std::byte* to, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    const uint64_t word = (i + seed) * 0x9e3779b97f4a7c15;
    std::memcpy(to + i, &word, std::min(sizeof word, bytes - i));
  }
}
bool Holds(const void* from, size_t bytes, uint64_t seed) {
  const auto* at = static_cast<const std::byte*>(from);
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    const uint64_t word = (i + seed) * 0x9e3779b97f4a7c15;
    if (std::memcmp(at + i, &word, std::min(sizeof word, bytes - i)) != 0) return false;
  }
  return true;
}

// Checks what came, and answers with `number` bytes; with an attachment as long as the request's.
class LargeImpl : public ProbeImpl {
 public:
  absl::Status Do(Context& context, const Ask& request, Reply<Answer>& reply) {
    if (request.data() != nullptr && !Holds(request.data()->data(), request.data()->size(), 1)) {
      return absl::DataLossError("other bytes came");
    }
    if (const Buffer& came = context.attachment(); !came.empty()) {
      if (!Holds(came.data(), came.size(), 2))
        return absl::DataLossError("another attachment came");
      absl::StatusOr<Buffer> attachment = reply.AllocateAttachment(came.size());
      if (!attachment.ok()) return attachment.status();
      Fill(attachment->data(), attachment->size(), 3);
      reply.Attach(*std::move(attachment));
    }
    uint8_t* to = nullptr;
    const auto data = reply.CreateUninitializedVector(request.number(), &to);
    Fill(reinterpret_cast<std::byte*>(to), request.number(), 4);
    reply.Finish(CreateAnswer(reply, 0, request.number(), data));
    return absl::OkStatus();
  }
};

struct Large {
  explicit Large(const MessageLimits& limits, const ShmOptions& shm = {})
      : server({.limits = limits, .keepalive = kPatient}) {
    REQUIRE(server.Add(Probe::Bind(impl)).ok());
    TransportOptions transports;
    transports.shm = shm;
    static int names = 0;
    auto address =
        Listen(server, "shm://large-" + std::to_string(::getpid()) + "-" + std::to_string(++names),
               transports);
    REQUIRE(address.ok());
    auto dialed = Dial(address->ToString(), {.limits = limits, .keepalive = kPatient}, transports);
    REQUIRE(dialed.ok());
    channel.emplace(*std::move(dialed));
    client.emplace(*channel);
    // Connected: what is built from now on lies where the peer can read it.
    REQUIRE(Call(10, 10).ok());
  }

  // Of these lengths are the vectors; the bodies are somewhat longer.
  absl::StatusOr<Msg<Answer>> Call(size_t request_bytes, size_t reply_bytes,
                                   uint64_t attachment = 0) {
    auto request = client->NewDo();
    if (attachment > 0) {
      absl::StatusOr<Buffer> buffer = request.AllocateAttachment(attachment);
      INFO(buffer.status());
      REQUIRE(buffer.ok());
      Fill(buffer->data(), buffer->size(), 2);
      request.Attach(*std::move(buffer));
    }
    uint8_t* to = nullptr;
    const auto data = request.CreateUninitializedVector(request_bytes, &to);
    Fill(reinterpret_cast<std::byte*>(to), request_bytes, 1);
    request.Finish(CreateAsk(request, 0, reply_bytes, data));
    body_bytes = request.GetSize();
    return client->Do(std::move(request), {.timeout = kLong, .wait_for_ready = true});
  }

  LargeImpl impl;
  Server server;
  std::optional<Channel> channel;
  std::optional<Probe::Client> client;
  size_t body_bytes = 0;  // of the last request
};

void CheckRefused(const absl::Status& status, const std::string& names) {
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(status.message()), Catch::Matchers::Contains(names));
}

TEST_CASE("a body or an attachment as long as its limit goes both ways, and not a byte more") {
  constexpr size_t kLimit = 300'032;  // bodies are padded: one can be just so long
  Large large({.max_body_bytes = kLimit, .max_attachment_bytes = kLimit});
  bool just = false, beyond = false;
  for (size_t bytes = kLimit - 200; bytes < kLimit; bytes += 4) {
    const auto reply = large.Call(bytes, 100);
    INFO("a body of " << large.body_bytes);
    CHECK(reply.ok() == (large.body_bytes <= kLimit));
    if (!reply.ok()) CheckRefused(reply.status(), "max_body_bytes");
    just |= large.body_bytes == kLimit;
    beyond |= large.body_bytes > kLimit;
  }
  CHECK(just);
  CHECK(beyond);
  for (size_t bytes : {kLimit - 1, kLimit, kLimit + 1}) {
    const auto reply = large.Call(10, 10, bytes);
    CHECK(reply.ok() == (bytes <= kLimit));
    if (!reply.ok()) CheckRefused(reply.status(), "max_attachment_bytes");
    if (reply.ok()) CHECK(Holds(reply->attachment().data(), bytes, 3));
  }
  const auto answer = large.Call(10, kLimit - 100);
  REQUIRE(answer.ok());
  CHECK(Holds((*answer)->data()->data(), kLimit - 100, 4));
  CheckRefused(large.Call(10, kLimit).status(), "max_body_bytes");
  CHECK(large.Call(10, 10).ok());
  CHECK(large.channel->info().stats.connects == 1);
}

TEST_CASE("a request and a reply of 1 GiB") {
  if (kSanitized) return;
  Large large({});
  // All that the limit has, but for what the table and its vector take.
  constexpr size_t kBytes = GiB - 64;
  const auto reply = large.Call(kBytes, kBytes);
  INFO(reply.status());
  REQUIRE(reply.ok());
  CHECK((*reply)->data()->size() == kBytes);
  CHECK(Holds((*reply)->data()->data(), kBytes, 4));
}

TEST_CASE("an attachment beyond 4 GiB") {
  if (kSanitized || FromEnvironment("FARCALL_HUGE", 0) == 0) return;
  constexpr uint64_t kBytes = 4 * GiB + 1;
  ShmOptions shm;
  shm.rdma.send_pool_bytes = shm.rdma.receive_pool_bytes = shm.rdma.connection_pool_bytes =
      20 * GiB;
  shm.device.max_mapped_bytes = 20 * GiB;
  Large large({.max_attachment_bytes = 5 * GiB}, shm);
  const auto reply = large.Call(10, 10, kBytes);
  INFO(reply.status());
  REQUIRE(reply.ok());
  CHECK(reply->attachment().size() == kBytes);
  CHECK(Holds(reply->attachment().data(), kBytes, 3));
}

TEST_CASE("a body beyond what a FlatBuffer can be is refused by that name") {
  if (kSanitized || FromEnvironment("FARCALL_HUGE", 0) == 0) return;
  ShmOptions shm;
  shm.rdma.send_pool_bytes = shm.rdma.receive_pool_bytes = shm.rdma.connection_pool_bytes =
      20 * GiB;
  shm.device.max_mapped_bytes = 20 * GiB;
  Large large({.max_body_bytes = 4 * GiB}, shm);
  const auto reply = large.Call(2 * GiB, 10);
  CHECK(reply.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(reply.status().message()),
             Catch::Matchers::Contains("a FlatBuffer has at most 2147483584"));
  CHECK(large.Call(10, 10).ok());
}

}  // namespace
}  // namespace farcall::testing
