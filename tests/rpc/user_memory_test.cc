// UserMemory by itself, and in calls over loopback.

#include "farcall/rpc/user_memory.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "farcall/tests/rpc/probe.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;

void Count(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

UserMemory::Registration Registered(std::atomic<int>& gone) {
  return {static_cast<const void*>(&gone), [&gone](const void*) { ++gone; }};
}

TEST_CASE("a slice lies within its memory, or is refused") {
  std::vector<std::byte> bytes(1000);
  const auto memory = UserMemory::Register(bytes).value();
  for (const auto& [offset, size] :
       {std::pair<size_t, size_t>{0, 1000}, {0, 0}, {1000, 0}, {999, 1}, {1, 999}}) {
    const Buffer slice = memory->Slice(offset, size).value();
    CHECK(slice.data() == bytes.data() + offset);
    CHECK(slice.size() == size);
    CHECK(slice.slot()->capacity == size);
    CHECK(UserMemory::Of(slice) == memory.get());
  }
  for (const auto& [offset, size] : {std::pair<size_t, size_t>{0, 1001},
                                     {1001, 0},
                                     {1, 1000},
                                     {SIZE_MAX, 1},
                                     {1, SIZE_MAX},
                                     {SIZE_MAX, SIZE_MAX}}) {
    CHECK(memory->Slice(offset, size).status().code() == absl::StatusCode::kOutOfRange);
  }
  CHECK(!memory->in_use());
  CHECK(UserMemory::Register({}).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(UserMemory::Of(Buffer()) == nullptr);
  CHECK(UserMemory::Of(WrapBytes(bytes, nullptr, nullptr)) == nullptr);
}

TEST_CASE("memory is free when the handle and every slice are gone, and no sooner") {
  std::vector<std::byte> bytes(100);
  std::atomic<int> released = 0;
  auto memory = UserMemory::Register(bytes, &Count, &released).value();
  Buffer one = memory->Slice(0, 50).value();
  Buffer two = memory->Slice(0, 100).value();
  CHECK(memory->in_use());
  SECTION("the handle last") {
    one.Reset();
    CHECK(memory->in_use());
    two.Reset();
    CHECK(!memory->in_use());
    CHECK(released == 0);
    memory.reset();
  }
  SECTION("a slice last") {
    memory.reset();
    two.Reset();
    CHECK(released == 0);
    one.Reset();
  }
  CHECK(released == 1);
}

TEST_CASE("a registration is made once for each user and goes before the memory is free") {
  std::vector<std::byte> bytes(100);
  std::atomic<int> released = 0, gone = 0;
  int made = 0, users[2] = {};
  auto memory = UserMemory::Register(bytes, &Count, &released).value();
  const auto ask = [&](int& user) {
    return memory->RegistrationFor(&user, [&] {
      ++made;
      return absl::StatusOr<UserMemory::Registration>(Registered(gone));
    });
  };
  for (int i = 0; i < 3; ++i) {
    CHECK(ask(users[0]).ok());
    CHECK(ask(users[1]).ok());
  }
  CHECK(made == 2);
  memory->Forget(&users[0]);
  memory->Forget(&users[0]);
  CHECK(gone == 1);
  CHECK(ask(users[0]).ok());
  CHECK(made == 3);
  memory.reset();
  CHECK(gone == 3);
  CHECK(released == 1);
}

TEST_CASE("a registration that fails is asked for again") {
  std::vector<std::byte> bytes(100);
  std::atomic<int> gone = 0;
  const auto memory = UserMemory::Register(bytes).value();
  const auto fail = [] {
    return absl::StatusOr<UserMemory::Registration>(absl::ResourceExhaustedError("no keys"));
  };
  CHECK(memory->RegistrationFor(&gone, fail).status().message() == "no keys");
  const auto succeed = [&] { return absl::StatusOr<UserMemory::Registration>(Registered(gone)); };
  CHECK(memory->RegistrationFor(&gone, succeed).ok());
}

TEST_CASE("eight threads use one handle") {
  std::vector<std::byte> bytes(8000);
  std::atomic<int> released = 0, gone = 0, made = 0;
  auto memory = UserMemory::Register(bytes, &Count, &released).value();
  int users[4] = {};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t, memory] {
      for (size_t i = 0; i < 500; ++i) {
        Buffer slice = memory->Slice(t * 1000, 1000).value();
        std::memset(slice.data(), static_cast<int>(t), slice.size());
        const auto found = memory->RegistrationFor(&users[i % 4], [&] {
          ++made;
          return absl::StatusOr<UserMemory::Registration>(Registered(gone));
        });
        if (i % 100 == 99) memory->Forget(&users[t % 4]);
      }
    });
  }
  memory.reset();
  for (std::thread& thread : threads) thread.join();
  CHECK(released == 1);
  CHECK(gone == made);
}

// ---- calls ----

Builder<Ask> Attached(Probe::Client& client, Buffer attachment) {
  Builder<Ask> request = Asking(client, "attached");
  request.Attach(std::move(attachment));
  return request;
}

TEST_CASE("a reply's attachment arrives in the caller's memory, and without a copy leaves it") {
  Stage stage;
  Probe::Client client(stage.Dial());
  std::vector<std::byte> bytes(300'000);
  const auto memory = UserMemory::Register(bytes).value();
  std::fill_n(bytes.begin(), 100'000, std::byte{7});
  Buffer place = memory->Slice(150'000, 150'000).value();
  auto reply =
      client.Do(Attached(client, memory->Slice(0, 100'000).value()), {.attachment_into = &place});
  REQUIRE(reply.ok());
  CHECK(!place);
  CHECK(reply->attachment().data() == bytes.data() + 150'000);
  CHECK(reply->attachment().size() == 100'000);
  CHECK(bytes[249'999] == std::byte{7});
  CHECK(memory->in_use());
  reply->TakeAttachment().Reset();
  CHECK(!memory->in_use());
}

TEST_CASE("memory that a reply does not need stays with the caller") {
  Stage stage;
  Probe::Client client(stage.Dial());
  std::vector<std::byte> bytes(1000);
  const auto memory = UserMemory::Register(bytes).value();
  Buffer place = memory->Slice(0, 99).value();
  SECTION("no attachment") {
    auto reply = client.Do(Asking(client, "plain"), {.attachment_into = &place});
    REQUIRE(reply.ok());
    CHECK(reply->attachment().empty());
  }
  SECTION("an attachment that does not fit") {
    auto reply =
        client.Do(Attached(client, memory->Slice(500, 100).value()), {.attachment_into = &place});
    REQUIRE(reply.ok());
    CHECK(reply->attachment().size() == 100);
    CHECK(reply->attachment().data() != bytes.data());
  }
  SECTION("an error") {
    CHECK(!client.Do(Asking(client, "fail"), {.attachment_into = &place}).ok());
  }
  SECTION("no server") {
    stage.server = nullptr;
    CHECK(!client.Do(Asking(client, "plain"), {.attachment_into = &place}).ok());
  }
  CHECK(place.data() == bytes.data());
  // And serves the next call.
  if (stage.server == nullptr) return;
  auto reply =
      client.Do(Attached(client, memory->Slice(500, 99).value()), {.attachment_into = &place});
  REQUIRE(reply.ok());
  CHECK(reply->attachment().data() == bytes.data());
}

TEST_CASE("an empty buffer to receive into is as none") {
  Stage stage;
  Probe::Client client(stage.Dial());
  Buffer none;
  auto request = Asking(client, "attached");
  request.Attach(request.AllocateAttachment(10).value());
  auto reply = client.Do(std::move(request), {.attachment_into = &none});
  REQUIRE(reply.ok());
  CHECK(reply->attachment().size() == 10);
}

TEST_CASE("a call that ends before its reply leaves the caller's memory alone") {
  Stage stage;
  Probe::Client client(stage.Dial());
  std::vector<std::byte> bytes(1000);
  const auto memory = UserMemory::Register(bytes).value();
  Buffer place = memory->Slice(0, 1000).value();
  const auto reply = client.Wait(Asking(client, "", 10'000),
                                 {.timeout = milliseconds(20), .attachment_into = &place});
  CHECK(reply.status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(place.data() == bytes.data());
}

}  // namespace
}  // namespace farcall::testing
