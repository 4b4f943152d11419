// The software NIC between processes: traffic, the peer's death at any moment, forks, leaks.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include "farcall/tests/transports/rdma/ends.h"
#include "farcall/tests/transports/rdma/softnic_testing.h"

namespace farcall::softnic::testing {
namespace {

using namespace rdma;
using rdma::testing::End;
using rdma::testing::EndOptions;
using rdma::testing::TurnUntil;
using Kind = ConnectionEvent::Kind;

constexpr size_t kInto = size_t{512} << 10;

// A process that runs softnic_peer.
class Process {
 public:
  Process(const std::string& folder, const std::string& address) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execl(FARCALL_SOFTNIC_PEER, FARCALL_SOFTNIC_PEER, folder.c_str(), address.c_str(),
              static_cast<char*>(nullptr));
      ::_exit(127);
    }
    REQUIRE(pid_ > 0);
  }
  ~Process() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  int pid() const { return pid_; }

 private:
  int pid_ = -1;
};

struct Offer {
  uint64_t address = 0;
  uint32_t rkey = 0;
};

// This process listens; another has connected.
struct Stage {
  explicit Stage(Device& device, const std::string& folder)
      : mine(device, EndOptions{.send_depth = 32, .receive_depth = 32}) {
    auto listener = device.Listen(*mine.channel, "stage");
    REQUIRE(listener.ok());
    peer.emplace(folder, "stage");
    ConnectionEvent request = mine.NextEvent(mine);
    REQUIRE(request.kind == Kind::kConnectRequest);
    REQUIRE(request.private_data.size() == sizeof offer);
    std::memcpy(&offer, request.private_data.data(), sizeof offer);
    mine.MakePair(std::move(request.request));
    for (uint64_t i = 0; i < 32; ++i) mine.Receive(i, kInto + i * 8192, 8192);
    REQUIRE(mine.id->Accept({}).ok());
    REQUIRE(mine.NextEvent(mine).kind == Kind::kEstablished);
  }

  // The next receive, in order; nothing else may complete but sends.
  Completion Received() {
    for (;;) {
      const Completion completion = mine.NextCompletion(mine);
      REQUIRE(completion.status == CompletionStatus::kSuccess);
      if (completion.opcode == Opcode::kReceive) return completion;
    }
  }

  End mine;
  std::optional<Process> peer;
  Offer offer;
};

size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

size_t Mappings() {
  size_t count = 0;
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[4096];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    count += std::strstr(line, "farcall-softnic") != nullptr ? 1 : 0;
  }
  std::fclose(maps);
  return count;
}

TEST_CASE("messages and reads cross processes") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  Stage stage(*device, folder.path());
  for (const uint32_t bytes : {0U, 1U, 64U, 240U, 241U, 4096U, 8192U}) {
    stage.mine.Fill(0, bytes, bytes);
    stage.mine.Send(1, 0, bytes);
    const Completion echo = stage.Received();
    CHECK(echo.bytes == bytes);
    CHECK(stage.mine.Holds(kInto + echo.wr_id * 8192, bytes, bytes));
  }
  while (!stage.mine.completions.empty()) stage.mine.completions.pop_front();
  stage.mine.Read(2, 0, 100'000, stage.offer.address + 10, stage.offer.rkey);
  Completion read;
  do {
    read = stage.mine.NextCompletion(stage.mine);
  } while (read.opcode != Opcode::kRead);
  CHECK(read.status == CompletionStatus::kSuccess);
  CHECK(std::all_of(stage.mine.memory(0), stage.mine.memory(100'000),
                    [](std::byte b) { return b == std::byte{0x42}; }));
}

TEST_CASE("a read needs nothing of its owner, not even that it runs") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  Stage stage(*device, folder.path());
  REQUIRE(::kill(stage.peer->pid(), SIGSTOP) == 0);
  stage.mine.Read(2, 0, 300'000, stage.offer.address, stage.offer.rkey);
  CHECK(stage.mine.NextCompletion(stage.mine).status == CompletionStatus::kSuccess);
  CHECK(*stage.mine.memory(299'999) == std::byte{0x42});
  ::kill(stage.peer->pid(), SIGCONT);
}

// Plays with a peer that is killed in the middle, and sees the end of it.
void KillInTheMiddle(Device& device, const std::string& folder, std::mt19937& random) {
  Stage stage(device, folder);
  std::thread killer([&stage, delay = random() % 3000] {
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
    ::kill(stage.peer->pid(), SIGKILL);
  });
  uint64_t in_flight = 0, next = 0;
  End& mine = stage.mine;
  std::vector<uint64_t> posted, completed;
  while (mine.events.empty()) {
    mine.Turn();
    for (; !mine.completions.empty(); mine.completions.pop_front()) {
      const Completion& completion = mine.completions.front();
      if (completion.wr_id >= 1000) completed.push_back(completion.wr_id);
      if (completion.status != CompletionStatus::kSuccess) continue;
      if (completion.opcode != Opcode::kReceive) continue;
      --in_flight;
      mine.Receive(completion.wr_id, kInto + completion.wr_id * 8192, 8192);
    }
    if (mine.pair->state() != QueuePairState::kReadyToSend) continue;
    if (in_flight < 16) {
      SendRequest request;
      request.wr_id = 1000 + next++;
      request.sge_count = 1;
      request.sges[0] = mine.At(0, static_cast<uint32_t>(random() % 8192));
      if (mine.Post(request).ok()) {
        posted.push_back(request.wr_id);
        ++in_flight;
      }
      request.wr_id = 1000 + next++;
      request.opcode = Opcode::kRead;
      request.sges[0] = mine.At(0, 100'000);
      request.remote_address = stage.offer.address;
      request.rkey = stage.offer.rkey;
      if (mine.Post(request).ok()) posted.push_back(request.wr_id);
    }
  }
  killer.join();
  CHECK(mine.events.front().kind == Kind::kDisconnected);
  for (int i = 0; i < 100; ++i) mine.Turn();
  for (const Completion& completion : mine.completions) {
    if (completion.wr_id >= 1000) completed.push_back(completion.wr_id);
  }
  CHECK(completed == posted);  // each once, in order
  CHECK(mine.events.size() == 1);
}

TEST_CASE("a peer that is killed at any moment is seen, costs its connection, and leaks nothing") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  std::mt19937 random(20260601);
  KillInTheMiddle(*device, folder.path(), random);
  const size_t descriptors = OpenDescriptors();
  const size_t mappings = Mappings();
  for (int i = 0; i < 12; ++i) KillInTheMiddle(*device, folder.path(), random);
  CHECK(OpenDescriptors() == descriptors);
  CHECK(Mappings() == mappings);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("the death of a peer wakes a sleeper within a second") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  Stage stage(*device, folder.path());
  stage.peer->Kill();
  pollfd ready{stage.mine.channel->fd(), POLLIN, 0};
  CHECK(::poll(&ready, 1, 1000) == 1);
  CHECK(stage.mine.NextEvent(stage.mine).kind == Kind::kDisconnected);
}

TEST_CASE("the socket of a listener that was killed is taken over, a live one's is not") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  const pid_t child = ::fork();
  if (child == 0) {
    const auto its = Make({.runtime_folder = folder.path()});
    const auto channel = *its->CreateEventChannel();
    const auto listener = its->Listen(*channel, "stage");
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(std::filesystem::is_empty(folder.path()));
  Stage stage(*device, folder.path());
}

TEST_CASE("a child of fork that keeps a connection's objects is refused, and harms nobody") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  Stage stage(*device, folder.path());
  const pid_t child = ::fork();
  if (child == 0) {
    SendRequest send;
    size_t posted = 0;
    const bool refused = stage.mine.pair->PostSend(std::span(&send, 1), posted).code() ==
                         absl::StatusCode::kFailedPrecondition;
    Completion completion;
    const bool empty = stage.mine.queue->Poll(std::span(&completion, 1)) == 0;
    stage.mine.id->Disconnect();
    stage.mine.id.reset();
    stage.mine.pair.reset();
    stage.mine.region.reset();
    ::_exit(refused && empty ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  stage.mine.Fill(0, 100, 9);
  stage.mine.Send(1, 0, 100);
  CHECK(stage.mine.Holds(kInto + stage.Received().wr_id * 8192, 100, 9));
}

TEST_CASE("a folder that others can enter, or that is no folder, is refused") {
  const Folder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  const auto device = Make({.runtime_folder = folder.path()});
  const auto channel = *device->CreateEventChannel();
  CHECK(device->Listen(*channel, "name").status().code() == absl::StatusCode::kPermissionDenied);
  CHECK(device->Resolve(*channel, "name").status().code() == absl::StatusCode::kPermissionDenied);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  CHECK(device->Listen(*channel, "name").ok());
  for (const char* name : {"", "../up", "a/b", ".hidden", "with space"}) {
    CHECK(device->Listen(*channel, name).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace farcall::softnic::testing
