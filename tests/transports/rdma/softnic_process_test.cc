// The software NIC between processes: traffic, the peer's death at any moment, forks, leaks.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
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

// The exit status of a child of fork that runs `body`.
int InChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

size_t Entries(const char* folder) {
  size_t count = 0;
  if (!std::filesystem::exists(folder)) return 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
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

TEST_CASE("a peer that is stopped holds up what was sent to it, and loses nothing") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  Stage stage(*device, folder.path());
  REQUIRE(::kill(stage.peer->pid(), SIGSTOP) == 0);
  int status = 0;
  REQUIRE(::waitpid(stage.peer->pid(), &status, WUNTRACED) == stage.peer->pid());
  SendRequest request;
  request.sge_count = 1;
  uint64_t sent = 0;
  do {
    request.wr_id = 1000 + sent;
    request.sges[0] = stage.mine.At(0, static_cast<uint32_t>(sent * 100));
  } while (stage.mine.Post(request).ok() && ++sent < 1000);
  CHECK(sent == 32);  // the depth of the send queue
  for (int i = 0; i < 1000; ++i) stage.mine.Turn();
  CHECK(stage.mine.completions.empty());
  CHECK(stage.mine.events.empty());
  CHECK(stage.mine.pair->state() == QueuePairState::kReadyToSend);
  ::kill(stage.peer->pid(), SIGCONT);
  std::vector<uint64_t> completed;
  uint64_t echoed = 0;
  while (completed.size() < sent || echoed < sent) {
    const Completion completion = stage.mine.NextCompletion(stage.mine);
    REQUIRE(completion.status == CompletionStatus::kSuccess);
    if (completion.opcode == Opcode::kReceive) {
      CHECK(completion.bytes == echoed++ * 100);
    } else {
      CHECK(completion.wr_id == 1000 + completed.size());
      completed.push_back(completion.wr_id);
    }
  }
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
  const size_t descriptors = Entries("/proc/self/fd");
  const size_t mappings = Mappings();
  const size_t shared = Entries("/dev/shm");
  for (int i = 0; i < (kSanitized ? 8 : 25); ++i) KillInTheMiddle(*device, folder.path(), random);
  CHECK(Entries("/proc/self/fd") == descriptors);
  CHECK(Mappings() == mappings);
  CHECK(Entries("/dev/shm") == shared);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a peer that is killed at any moment of its handshake leaves nothing") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  std::mt19937 random(20260602);
  size_t descriptors = 0, mappings = 0;
  for (int i = 0; i < 40; ++i) {
    End mine(*device, EndOptions{});
    {
      const auto listener = device->Listen(*mine.channel, "stage");
      REQUIRE(listener.ok());
      Process peer(folder.path(), "stage");
      const auto end = std::chrono::steady_clock::now() +
                       std::chrono::microseconds(random() % (kSanitized ? 60'000 : 6000));
      const auto turn = [&] {
        mine.Turn();
        for (; !mine.events.empty(); mine.events.pop_front()) {
          ConnectionEvent& event = mine.events.front();
          if (event.kind != Kind::kConnectRequest) continue;
          mine.MakePair(std::move(event.request));
          // The peer may be gone by now.
          [[maybe_unused]] const absl::Status accepted = mine.id->Accept({});
        }
      };
      while (std::chrono::steady_clock::now() < end) turn();
      peer.Kill();
      for (int turns = 0; turns < 100; ++turns) turn();
      if (mine.pair != nullptr) CHECK(mine.pair->state() != QueuePairState::kReadyToSend);
    }
    mine.pair.reset();
    mine.id.reset();
    CHECK(std::filesystem::is_empty(folder.path()));
    if (i == 0) {
      descriptors = Entries("/proc/self/fd");
      mappings = Mappings();
    }
    CHECK(Entries("/proc/self/fd") == descriptors);
    CHECK(Mappings() == mappings);
  }
}

// From here on any system call but the last kills the process.
void ForbidSystemCalls() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog program{std::size(filter), filter};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(77);
}

// Round trips with a busy peer, READs, windows; 0 when all went well.
int BusyTraffic(Stage& stage) {
  End& mine = stage.mine;
  const std::unique_ptr<MemoryWindow> window = *mine.domain->AllocateWindow();
  ForbidSystemCalls();
  for (uint32_t i = 0; i < 5000; ++i) {
    SendRequest request;
    size_t posted = 0;
    request.sge_count = 1;
    request.sges[0] = mine.At(0, i % 2 == 0 ? 32 : 5000);
    if (i % 16 == 1) {
      request.opcode = Opcode::kRead;
      request.remote_address = stage.offer.address;
      request.rkey = stage.offer.rkey;
    } else if (i % 16 == 2) {
      request.opcode = Opcode::kBind;
      request.window = window.get();
      request.region = mine.region.get();
      request.bind_address = mine.address();
      request.bind_length = 100;
    }
    if (!mine.pair->PostSend(std::span(&request, 1), posted).ok()) return 1;
    for (int awaited = request.opcode == Opcode::kSend ? 2 : 1; awaited != 0;) {
      Completion done;
      if (mine.queue->Poll(std::span(&done, 1)) == 0) continue;
      if (done.status != CompletionStatus::kSuccess) return 2;
      --awaited;
      if (done.opcode != Opcode::kReceive) continue;
      const ReceiveRequest again{done.wr_id, mine.At(kInto + done.wr_id * 8192, 8192)};
      if (!mine.pair->PostReceive(std::span(&again, 1), posted).ok()) return 3;
    }
  }
  ::syscall(__NR_exit_group, 42);
  return 4;
}

TEST_CASE("who polls makes no system call, and wakes nobody who does") {
  if (kSanitized) return;
  const Folder folder;
  const int status = InChild([&] {
    const auto device = Make({.runtime_folder = folder.path()});
    Stage stage(*device, folder.path());
    return BusyTraffic(stage);
  });
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    WARN("no seccomp here: not run");
    return;
  }
  CHECK(WEXITSTATUS(status) == 42);
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

TEST_CASE("a program that a process with connections starts inherits none of them") {
  const Folder folder;
  const auto device = Make({.runtime_folder = folder.path()});
  Stage stage(*device, folder.path());
  const auto listener = device->Listen(*stage.mine.channel, "another");
  size_t ours = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string what = std::filesystem::read_symlink(entry.path(), gone).string();
    const bool its = what.starts_with("socket:") || what.starts_with("anon_inode:[event") ||
                     what.starts_with("/memfd:farcall");
    if (!its) continue;
    ++ours;
    INFO(what);
    const int fd = std::stoi(entry.path().filename().string());
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(ours >= 7);  // two epolls, their two eventfds, two sockets, memory
  // While the child of fork and its program live, nothing of the connection changes.
  const Process program(folder.path(), "another");
  stage.mine.Fill(0, 100, 9);
  stage.mine.Send(1, 0, 100);
  CHECK(stage.mine.Holds(kInto + stage.Received().wr_id * 8192, 100, 9));
  stage.peer->Kill();
  ConnectionEvent event = stage.mine.NextEvent(stage.mine);
  // The program may have come to the listener by now.
  if (event.kind == Kind::kConnectRequest) event = stage.mine.NextEvent(stage.mine);
  CHECK(event.kind == Kind::kDisconnected);
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
