#include "farcall/bench/demo/farcall_subject.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "farcall/bench/demo/echo_run.h"
#include "farcall/rpc/server.h"
#include "farcall/services/echo/echo_impl.h"
#include "farcall/transports/dial.h"

namespace farcall::bench {
namespace {

using std::chrono::milliseconds;

Workload Short(Case kind, size_t bytes, int outstanding) {
  return {.kind = kind,
          .bytes = bytes,
          .outstanding = outstanding,
          .duration = milliseconds(20),
          .warm_up = milliseconds(5)};
}

TEST_CASE("every workload runs over every transport") {
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const Mode mode : {Mode::kEvent, Mode::kBusy}) {
    for (const auto scheme : {Scheme::kTcp, Scheme::kShm}) {
      subjects.push_back(std::make_unique<ProcessSubject>(FARCALL_ECHO_SERVER, scheme, mode));
    }
    subjects.push_back(std::make_unique<LoopbackSubject>(mode));
  }
  for (const auto& subject : subjects) {
    for (const Workload& workload :
         {Short(Case::kLatency, 16, 1), Short(Case::kLatency, 4 << 10, 1),
          Short(Case::kLatency, 64 << 10, 1), Short(Case::kLatency, 1 << 20, 2),
          Short(Case::kThroughput, 32, 64), Short(Case::kBulkRequest, 1 << 20, 8),
          Short(Case::kBulkReply, 1 << 20, 8)}) {
      CAPTURE(subject->transport(), NameOf(subject->mode()), NameOf(workload.kind), workload.bytes);
      const absl::StatusOr<Measurement> measurement = subject->Run(workload, std::nullopt);
      CAPTURE(measurement.status());
      REQUIRE(measurement.ok());
      CHECK(measurement->latency.count() > 0);
      CHECK(measurement->errors == 0);
      CHECK(measurement->elapsed_ns >= 20'000'000);
      CHECK(measurement->cpu_ns > 0);
    }
  }
}

TEST_CASE("at part of the load fewer calls are made") {
  ProcessSubject tcp(FARCALL_ECHO_SERVER, Scheme::kTcp, Mode::kEvent);
  Workload workload = Short(Case::kThroughput, 32, 64);
  workload.connections = 8;
  workload.duration = workload.warm_up = milliseconds(200);
  const absl::StatusOr<Measurement> most = tcp.Run(workload, std::nullopt);
  REQUIRE(most.ok());
  workload.load_percent = 10;
  const absl::StatusOr<Measurement> some = tcp.Run(workload, std::nullopt);
  CAPTURE(some.status());
  REQUIRE(some.ok());
  CHECK(some->errors == 0);
  CHECK(some->latency.count() > 0);
  // A tenth, on a machine that may do other things in one of the two runs.
  CHECK(some->latency.count() < most->latency.count() / 2);
}

TEST_CASE("shared memory goes the way that it is forced to") {
  for (const uint32_t threshold : {uint32_t{0}, uint32_t{128} << 10}) {
    ProcessSubject subject(FARCALL_ECHO_SERVER, Scheme::kShm, Mode::kBusy, threshold);
    const Workload workload = Short(Case::kLatency, 16 << 10, 1);
    CHECK(subject.path(workload) == (threshold == 0 ? "rendezvous" : "eager"));
    const absl::StatusOr<Measurement> measurement = subject.Run(workload, std::nullopt);
    CAPTURE(measurement.status());
    REQUIRE(measurement.ok());
    CHECK(measurement->errors == 0);
  }
}

TEST_CASE("connections say what they do for a call, on both sides") {
  ProcessSubject tcp(FARCALL_ECHO_SERVER, Scheme::kTcp, Mode::kEvent);
  const absl::StatusOr<Costs> stream =
      tcp.CountOperations(Short(Case::kLatency, 32, 1), std::nullopt);
  REQUIRE(stream.ok());
  CHECK(stream->send_calls == Approx(2).margin(0.02));
  CHECK(stream->receive_calls == Approx(2).margin(0.02));
  CHECK_FALSE(stream->sends.has_value());

  ProcessSubject shm(FARCALL_ECHO_SERVER, Scheme::kShm, Mode::kEvent);
  const absl::StatusOr<Costs> small =
      shm.CountOperations(Short(Case::kLatency, 32, 1), std::nullopt);
  REQUIRE(small.ok());
  CHECK(small->sends == Approx(2).margin(0.02));
  CHECK(small->doorbells == Approx(2).margin(0.02));
  CHECK(small->reads == 0.0);
  CHECK(small->registrations == 0.0);
  const absl::StatusOr<Costs> large =
      shm.CountOperations(Short(Case::kLatency, 1 << 20, 1), std::nullopt);
  REQUIRE(large.ok());
  CHECK(*large->reads >= 8);
  CHECK(large->sends == Approx(4).margin(0.1));
}

TEST_CASE("a server that does not start is an error") {
  ProcessSubject subject("/nowhere/farcall_echo_server", Scheme::kTcp, Mode::kEvent);
  CHECK(absl::IsNotFound(subject.Run(Short(Case::kLatency, 32, 1), std::nullopt).status()));
}

// What a server does to calls after the first `kHonest` of them.
enum class Sin { kNone, kOtherStamp, kShort, kOtherAttachment, kError };
constexpr int kHonest = 20;

class Sinner {
 public:
  explicit Sinner(Sin sin) : sin_(sin) {}

  absl::Status Say(Context& context, const services::SayRequest& request,
                   Reply<services::SayReply>& reply) {
    return honest_.Say(context, request, reply);
  }
  absl::Status Bytes(Context& context, const services::BytesRequest& request,
                     Reply<services::BytesReply>& reply) {
    if (++calls_ <= kHonest || sin_ == Sin::kNone) return honest_.Bytes(context, request, reply);
    if (sin_ == Sin::kError) return absl::InternalError("no more");
    std::vector<uint8_t> data;
    if (request.data() != nullptr) data.assign(request.data()->begin(), request.data()->end());
    if (sin_ == Sin::kOtherStamp) data.back() ^= uint8_t{1};
    if (sin_ == Sin::kShort) data.pop_back();
    if (context.attachment()) {
      Buffer attachment = context.TakeAttachment();
      if (sin_ == Sin::kOtherAttachment) attachment.data()[0] ^= std::byte{1};
      reply.Attach(std::move(attachment));
    }
    reply.Finish(services::CreateBytesReply(reply, reply.CreateVector(data)));
    return absl::OkStatus();
  }
  absl::Status Discard(Context& context, const services::DiscardRequest& request,
                       Reply<services::DiscardReply>& reply) {
    return honest_.Discard(context, request, reply);
  }

 private:
  const Sin sin_;
  int calls_ = 0;
  services::EchoImpl honest_;
};

absl::StatusOr<Measurement> RunAgainst(Sin sin, const Workload& workload) {
  Sinner sinner(sin);
  Server server(ServerOptions{.mode = ProgressMode::kEvent});
  REQUIRE(server.Add(services::Echo::Bind(sinner)).ok());
  REQUIRE(Listen(server, "loopback://sinner").ok());
  const absl::StatusOr<Channel> channel = Dial("loopback://sinner");
  REQUIRE(channel.ok());
  return RunEcho({&*channel, 1}, workload, {.cpu = []() -> absl::StatusOr<uint64_t> { return 1; }});
}

TEST_CASE("wrong replies are counted, and say which") {
  const int outstanding = GENERATE(1, 8);
  const Sin sin = GENERATE(Sin::kNone, Sin::kOtherStamp, Sin::kShort);
  CAPTURE(outstanding, static_cast<int>(sin));
  const absl::StatusOr<Measurement> measurement =
      RunAgainst(sin, Short(Case::kLatency, 32, outstanding));
  REQUIRE(measurement.ok());
  if (sin == Sin::kNone) {
    CHECK(measurement->errors == 0);
  } else {
    CHECK(measurement->errors > 0);
    CHECK(measurement->first_error.find("the reply to call ") == 0);
  }
}

TEST_CASE("a wrong attachment is a wrong reply") {
  const absl::StatusOr<Measurement> measurement =
      RunAgainst(Sin::kOtherAttachment, Short(Case::kLatency, 64 << 10, 1));
  REQUIRE(measurement.ok());
  CHECK(measurement->errors > 0);
}

TEST_CASE("a call that fails ends the run with its status") {
  const int outstanding = GENERATE(1, 8);
  CAPTURE(outstanding);
  const absl::Status status =
      RunAgainst(Sin::kError, Short(Case::kThroughput, 32, outstanding)).status();
  CHECK(absl::IsInternal(status));
  CHECK(status.message() == "no more");
}

}  // namespace
}  // namespace farcall::bench
