#include "farcall/tests/transports/auto/world.h"

#include <catch2/catch.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/outcome.h"
#include "farcall/transports/rdma/shm.h"
#include "farcall/transports/tcp/tcp.h"

namespace farcall::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Inline, eager, and read by the peer.
constexpr size_t kSizes[] = {0, 100, 3000, 40'000, 300'000};

}  // namespace

absl::Status CountingProbe::Do(Context& context, const Ask& request, Reply<Answer>& reply) {
  {
    MutexLock lock(mutex_);
    ++times_[request.number()];
  }
  return ProbeImpl::Do(context, request, reply);
}

int CountingProbe::times(uint64_t number) const {
  MutexLock lock(mutex_);
  const auto found = times_.find(number);
  return found == times_.end() ? 0 : found->second;
}

ChannelOptions Brisk() {
  ChannelOptions options;
  options.backoff = {.first = milliseconds(5), .max = milliseconds(50)};
  options.paths.cool_down = {.first = milliseconds(10), .max = milliseconds(100)};
  return options;
}

AutoOptions TcpAndShm() {
  return {.tcp = MakeTcpTransport(), .shm = MakeShmTransport(), .rdma = nullptr};
}

AutoServer::AutoServer(AutoOptions paths, ServerOptions options, const std::string& host)
    : server(std::make_unique<Server>(std::move(options))) {
  REQUIRE(server->Add(Probe::Bind(probe)).ok());
  const auto listening = server->Listen(MakeAutoTransport(std::move(paths)),
                                        ParseEndpoint("auto://" + host + ":0").value());
  INFO(listening.status());
  REQUIRE(listening.ok());
  address = *listening;
}

Channel AutoServer::Dial(AutoOptions paths, const ChannelOptions& options) const {
  return Channel(MakeAutoTransport(std::move(paths)), address, options);
}

bool GoesBy(const Channel& channel, const std::string& path, Duration bound) {
  return Eventually([&] { return channel.info().paths.in_use == path; }, bound);
}

std::string WhyNot(const Channel& channel, const std::string& path) {
  for (const PathReport::Unused& unused : channel.metrics().paths.better) {
    if (unused.name == path) return unused.reason;
  }
  return "";
}

Traffic::Traffic(const Channel& channel, int at_once) : client_(channel), under_way_(at_once) {
  for (int i = 0; i < at_once; ++i) Next();
}

void Traffic::Next() {
  if (stopping_) {
    --under_way_;
    return;
  }
  const uint64_t number = ++last_;
  client_.AsyncDo(
      Asking(client_, "", number, kSizes[number % std::size(kSizes)]),
      {.timeout = seconds(20), .wait_for_ready = true},
      [this, number](const absl::StatusOr<Msg<Answer>>& reply) { OnEnd(number, reply.status()); });
}

void Traffic::OnEnd(uint64_t number, const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (!ended_.emplace(number, status).second) trouble_ = absl::StrCat(number, " ended twice");
  }
  if (status.ok()) ++succeeded_;
  Next();
}

bool Traffic::Stop() {
  stopping_ = true;
  return Eventually([this] { return under_way_ == 0; }, seconds(30));
}

std::string Traffic::Judge(const CountingProbe& probe) const {
  MutexLock lock(mutex_);
  if (!trouble_.empty()) return trouble_;
  if (ended_.size() != last_) return absl::StrCat(last_ - ended_.size(), " calls did not end");
  for (const auto& [number, status] : ended_) {
    const int times = probe.times(number);
    const bool may_run = !NeverRan(status);
    if (times > 1) return absl::StrCat(number, " ran ", times, " times");
    if (status.ok() && times != 1) return absl::StrCat(number, " succeeded and never ran");
    if (!may_run && times != 0) {
      return absl::StrCat(number, " ran, though it says: ", status.ToString());
    }
    if (!status.ok() && !absl::IsUnavailable(status)) return status.ToString();
  }
  return "";
}

}  // namespace farcall::testing
