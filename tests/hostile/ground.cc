#include "farcall/tests/hostile/ground.h"

#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include "farcall/rpc/endpoint.h"
#include "farcall/tests/rpc/sanitized.h"
#include "farcall/transports/dial.h"

#ifdef FARCALL_TEST_SANITIZED
// Of sanitizer/allocator_interface.h, which GCC's packages do not bring along.
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace farcall::hostile {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Eventually;

// ---- the healthy caller ----

namespace {

// Of its own: it shares no pool with whoever is tested.
std::shared_ptr<Transport> NewTransportFor(const Endpoint& server) {
  return TransportFor(server, TransportOptions{}).value();
}

}  // namespace

HealthyCaller::HealthyCaller(const Endpoint& server, size_t body_bytes,
                             std::shared_ptr<EventLoop> loop, std::shared_ptr<Transport> transport)
    : body_bytes_(body_bytes),
      channel_(transport != nullptr ? std::move(transport) : NewTransportFor(server), server,
               {.loop = std::move(loop), .mode = ProgressMode::kEvent}),
      thread_([this] { Run(); }) {}

HealthyCaller::~HealthyCaller() {
  stop_ = true;
  thread_.join();
}

void HealthyCaller::Run() {
  testing::Probe::Client client(channel_);
  while (!stop_) {
    auto answer = client.Do(testing::Asking(client, "", 7, body_bytes_), {.timeout = seconds(20)});
    if (!answer.ok() || (*answer)->data()->size() != body_bytes_) {
      MutexLock lock(mutex_);
      failure_ = answer.ok() ? "a wrong answer" : answer.status().ToString();
      failed_ = true;
      return;
    }
    ++answered_;
    std::this_thread::sleep_for(milliseconds(1));  // two cores are shared with the attack
  }
}

std::string HealthyCaller::Trouble(int calls) const {
  const int before = answered_;
  const bool answered =
      Eventually([&] { return failed_ || answered_ >= before + calls; }, seconds(30));
  MutexLock lock(mutex_);
  return failed_ || answered ? failure_ : "no answer within 30 s";
}

// ---- the server ----

Ground::Ground(ServerOptions options, const TcpOptions& tcp)
    : server([&] {
        options.mode = ProgressMode::kEvent;
        return std::move(options);
      }()) {
  server.Add(testing::Probe::Bind(probe)).IgnoreError();
  server.Add(testing::Blocker::Bind(blocker, {.blocking = true})).IgnoreError();
  endpoint = server.Listen(MakeTcpTransport(tcp), *ParseEndpoint("tcp://127.0.0.1:0")).value();
  healthy = std::make_unique<HealthyCaller>(endpoint);
}

bool Ground::Quiet() const {
  return Eventually([&] { return server.stats().connections_open <= 1; }, seconds(20));
}

// ---- the log ----

LogLines::LogLines() {
  SetLogSink(
      [lines = lines_](LogLevel /*level*/, std::string_view line) {
        MutexLock lock(lines->mutex);
        lines->lines.emplace_back(line);
      },
      LogLevel::kWarning);
}

LogLines::~LogLines() { SetLogSink({}, LogLevel::kWarning); }

bool LogLines::Saw(const std::string& text) const {
  return Eventually([&] { return all().find(text) != std::string::npos; });
}

std::string LogLines::all() const {
  MutexLock lock(lines_->mutex);
  std::string all;
  for (const std::string& line : lines_->lines) all += line + "\n";
  return all;
}

void LogLines::Forget() {
  MutexLock lock(lines_->mutex);
  lines_->lines.clear();
}

// ---- memory ----

Usage Usage::Now() {
  Usage usage;
#ifdef FARCALL_TEST_SANITIZED
  usage.heap_bytes = __sanitizer_get_current_allocated_bytes();
#else
  usage.heap_bytes = mallinfo2().uordblks;
  std::ifstream statm("/proc/self/statm");
  size_t size = 0, resident = 0;
  statm >> size >> resident;
  usage.resident_bytes = resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
#endif
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++usage.descriptors;
  ::closedir(folder);
  return usage;
}

std::string Rounds::Trouble(size_t faults_a_round) const {
  const size_t third = after_.size() / 3;
  const auto least = [&](size_t from, size_t Usage::*what) {
    size_t smallest = after_.at(from).*what;
    for (size_t i = from; i < from + third; ++i) smallest = std::min(smallest, after_[i].*what);
    return smallest;
  };
  const auto growth = [&](size_t Usage::*what) {
    const size_t first = least(0, what);
    const size_t last = least(after_.size() - third, what);
    return last > first ? last - first : 0;
  };
  const size_t rounds = after_.size() - third;  // between the middles of both
  const size_t heap = growth(&Usage::heap_bytes), resident = growth(&Usage::resident_bytes),
               descriptors = growth(&Usage::descriptors);
  // A connection of the last fault may still linger.
  constexpr size_t kLingering = size_t{8} << 10;
  if (heap <= rounds * faults_a_round * sizeof(void*) + kLingering && resident <= (2 << 20) &&
      descriptors < rounds / 2) {
    return {};
  }
  return "after " + std::to_string(rounds) + " rounds of " + std::to_string(faults_a_round) +
         " faults: " + std::to_string(heap) + " bytes of heap, " + std::to_string(resident) +
         " resident and " + std::to_string(descriptors) + " descriptors more";
}

// ---- bodies ----

std::string AskBody(const std::string& action, uint64_t number, size_t data_bytes) {
  flatbuffers::FlatBufferBuilder builder;
  const auto action_at = builder.CreateString(action);
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data_at;  // none: it would be echoed
  if (data_bytes > 0) data_at = builder.CreateVector(std::vector<uint8_t>(data_bytes, 3));
  builder.Finish(farcall::testing::CreateAsk(builder, action_at, number, data_at));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

std::string AnswerBody(const std::string& text, size_t data_bytes) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text_at = builder.CreateString(text);
  const auto data_at = builder.CreateVector(std::vector<uint8_t>(data_bytes, 3));
  builder.Finish(farcall::testing::CreateAnswer(builder, text_at, 0, data_at));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

}  // namespace farcall::hostile
