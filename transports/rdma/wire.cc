#include "farcall/transports/rdma/wire.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/transports/rdma/errors.h"

namespace farcall::rdma {
namespace {

constexpr std::string_view kNoMeans = "it has no memory or queues for it; see its log";
static_assert(kNoMeans.size() <= kMaxReasonBytes);

// A power of two, so that the counters of slots may wrap.
uint32_t SendDepth(const Device& device) {
  return std::bit_floor(std::min(kSendDepth, device.capabilities().max_send_depth));
}

}  // namespace

// ---- coming to be ----

absl::StatusOr<std::shared_ptr<Wire>> Wire::Create(std::shared_ptr<LoopDevice> device,
                                                   std::unique_ptr<ConnectionId> id,
                                                   std::shared_ptr<const Settings> settings,
                                                   Names names) {
  auto wire = std::make_shared<Wire>(std::move(device), std::move(id), std::move(settings),
                                     std::move(names));
  absl::Status status = wire->SetUp();
  if (status.ok()) return wire;
  // A peer that asked for the connection hears that much; the log of this side has the rest.
  wire->id_->Reject(std::as_bytes(std::span(kNoMeans))).IgnoreError();
  wire->GiveUp();
  return wire->Named(status);
}

Wire::Wire(std::shared_ptr<LoopDevice> device, std::unique_ptr<ConnectionId> id,
           std::shared_ptr<const Settings> settings, Names names)
    : loop_(device->loop()),
      device_(std::move(device)),
      settings_(std::move(settings)),
      names_(std::move(names)),
      id_(std::move(id)),
      order_(settings_->options.limits.max_queued_bytes),
      outbox_(settings_->options.limits),
      slots_(SendDepth(device_->device()), kSignalInterval, settings_->count_from),
      sends_(settings_->count_from) {}

Wire::~Wire() = default;

absl::Status Wire::SetUp() {
  const Capabilities& can = device_->device().capabilities();
  const RdmaOptions& options = settings_->options;
  if (can.max_receive_depth < options.receive_depth || can.max_private_data < kParametersBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the device ", can.name, " has receive queues of ", can.max_receive_depth,
                     ", not ", options.receive_depth, " (RdmaOptions::receive_depth)"));
  }
  if (options.isolation == RdmaIsolation::kWindow && !can.windows) {
    return absl::InvalidArgumentError(
        absl::StrCat("the device ", can.name, " has no memory windows (RdmaOptions::isolation)"));
  }
  absl::Status memory = SetUpMemory();
  if (!memory.ok()) return memory;

  const uint32_t send_depth = slots_.free();
  absl::StatusOr<std::shared_ptr<LoopQueue>> queue =
      device_->TakeQueue(send_depth + options.receive_depth);
  if (!queue.ok()) return queue.status();
  queue_ = *std::move(queue);
  absl::StatusOr<std::unique_ptr<QueuePair>> pair = id_->CreateQueuePair(
      *memory_->domain(), {.send_queue = queue_->queue.get(),
                           .receive_queue = queue_->queue.get(),
                           .send_depth = send_depth,
                           .receive_depth = options.receive_depth,
                           .max_inline = std::min(kMaxInline, can.max_inline)});
  if (!pair.ok()) return pair.status();
  pair_ = *std::move(pair);
  number_ = pair_->number();
  max_inline_ = pair_->max_inline();
  place_ = device_->Add(shared_from_this());
  for (uint32_t i = 0; i < options.receive_depth; ++i) {
    absl::Status posted = PostReceive(receives_->Take());
    if (!posted.ok()) return posted;
  }
  return absl::OkStatus();
}

// Unless all connections share one, everything of this connection is in a domain of its own:
// whatever a device lets a peer see, it sees nothing of others.
absl::Status Wire::SetUpMemory() {
  Device& device = device_->device();
  const RdmaOptions& options = settings_->options;
  absl::StatusOr<std::shared_ptr<MemoryDomain>> memory =
      settings_->shared_domain != nullptr
          ? settings_->shared_domain->Get(device, options, settings_->budgets)
          : MemoryDomain::Create(device, options, settings_->budgets);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  const std::shared_ptr<ProtectionDomain>& domain = memory_->domain();
  if (memory_->windows()) windows_.emplace(*domain);
  send_memory_ = memory_->send_memory();
  receive_memory_ = memory_->receive_memory();
  send_pool_ = memory_->send_pool();
  receive_pool_ = memory_->receive_pool();

  const Parameters ours = settings_->parameters();
  absl::StatusOr<ReceiveBuffers::Owner> receives =
      ReceiveBuffers::Create(domain, settings_->budgets.receive,
                             {.posted = ours.receive_depth,
                              .spares = std::max(ours.receive_depth / kSpareShare, uint32_t{2}),
                              .bytes = ours.receive_bytes});
  if (!receives.ok()) return receives.status();
  receives_ = *std::move(receives);
  absl::StatusOr<std::unique_ptr<MemoryRegion>> fronts =
      domain->Allocate(size_t{slots_.free()} * kFrontBytes, {});
  if (!fronts.ok()) return fronts.status();
  fronts_ = *std::move(fronts);
  tallies_.registrations += 2;
  return absl::OkStatus();
}

// ---- the handshake ----

ConnectionParameters Wire::OurParameters(const ParametersBytes& bytes) const {
  const Capabilities& can = device_->device().capabilities();
  return {
      .private_data = bytes,
      .responder_resources = std::min(settings_->options.read_depth, can.max_responder_resources),
      .initiator_depth = std::min(settings_->options.read_depth, can.max_initiator_depth),
      .rnr_retry = 0};  // there is always a receive: see Credits
}

absl::Status Wire::Connect() {
  const ParametersBytes bytes = EncodeParameters(settings_->parameters());
  return id_->Connect(OurParameters(bytes));
}

absl::Status Wire::Accept() {
  const ParametersBytes bytes = EncodeParameters(settings_->parameters());
  return id_->Accept(OurParameters(bytes));
}

absl::Status Wire::CheckPeer(const ConnectionEvent& event, Parameters& peer) {
  absl::Status status = DecodeParameters(event.private_data, peer);
  if (status.ok() && event.initiator_depth == 0) {
    return absl::FailedPreconditionError("the peer's device serves no READs");
  }
  return status;
}

absl::Status Wire::MeetPeer(const ConnectionEvent& event) {
  Parameters peer;
  absl::Status status = CheckPeer(event, peer);
  if (!status.ok()) return status;
  const RdmaOptions& options = settings_->options;
  const Parameters ours = settings_->parameters();
  const Capabilities& can = device_->device().capabilities();
  const uint32_t depth =
      std::min({options.read_depth, can.max_initiator_depth, event.initiator_depth});
  peer_receive_bytes_ = std::min(peer.receive_bytes, can.max_send_bytes);
  const uint32_t count_from = settings_->count_from;
  credits_.emplace(ours.receive_depth, peer.receive_depth,
                   Credits::Variation{.count_from = count_from});
  OutgoingTransfers::Limits outgoing;
  outgoing.max_open = std::min(peer.max_transfers, ours.max_transfers);
  outgoing_.emplace(outgoing, count_from);
  incoming_.emplace(
      IncomingTransfers::Limits{.max_open = ours.max_transfers,
                                .max_announced_bytes = options.limits.max_announced_bytes},
      count_from);
  reads_.emplace(
      depth, static_cast<uint32_t>(std::min<uint64_t>(options.chunk_bytes, can.max_read_bytes)));
  return absl::OkStatus();
}

void Wire::Begin(bool active) {
  device_->Watch(*id_, *this);
  if (!active) return;
  speak_first_ = may_send_ = true;
  FlushSoon();
}

void Wire::GiveUp() {
  shut_ = detached_ = true;
  DestroyQueuePair();
}

// ---- the contract ----

void Wire::Start(Receiver& receiver) {
  assert(loop_.IsDriver() && receiver_ == nullptr);
  receiver_ = &receiver;
  ResumeSoon();
}

void Wire::Close(absl::Status status) {
  assert(loop_.IsDriver());
  if (shut_) return;
  if (cause_.ok()) PostAll();
  Shut(std::move(status));
}

void Wire::Detach() {
  receiver_ = nullptr;
  detached_ = true;
  Close(absl::CancelledError("the connection was destroyed"));
  outbox_.TakeEnded(ending_);
  ending_.clear();
  if (pair_ == nullptr) device_->Remove(place_);
}

ConnectionInfo Wire::info() const {
  ConnectionCounters counters = counters_.Read();
  counters.queued_messages = outbox_.queued_messages();
  counters.queued_bytes = outbox_.queued_bytes();
  return {settings_->scheme, names_.peer, names_.local, counters};
}

RdmaCounters Wire::counters() const {
  return {.sends = tallies_.sends,
          .inline_sends = tallies_.inline_sends,
          .reads = tallies_.reads,
          .doorbells = tallies_.doorbells,
          .signaled = tallies_.signaled,
          .eager_messages = tallies_.eager_messages,
          .rendezvous_messages = tallies_.rendezvous_messages,
          .credit_messages = tallies_.credit_messages,
          .credit_stalls = tallies_.credit_stalls,
          .slot_stalls = tallies_.slot_stalls,
          .copies = tallies_.copies,
          .registrations = tallies_.registrations + memory_->registrations()};
}

// With the peer's name in front, once: the device's messages may have it.
absl::Status Wire::Named(const absl::Status& status) const {
  if (absl::StartsWith(status.message(), names_.peer)) return status;
  return absl::Status(status.code(), absl::StrCat(names_.peer, ": ", status.message()));
}

// ---- turns ----

void Wire::Resume() {
  const bool was_shut = shut_;
  if (!started_ && receiver_ != nullptr && !shut_) {
    started_ = true;
    while (!early_.empty() && !shut_) TakeIn(early_.Pop());
    if (flushed_early_ && !shut_) Shut(cause_);
  }
  RunDones();
  if (!shut_) FlushSoon();  // the last turn may have left something to send
  if (was_shut) TellClosed();
}

// Not those that end because of what a done does: they come later.
void Wire::RunDones() {
  if (!outbox_.has_ended()) return;
  std::vector<Outbox::Ended> ended = std::move(ending_);
  outbox_.TakeEnded(ended);
  for (Outbox::Ended& end : ended) {
    if (!detached_) end.done(std::move(end.result));
    end.done = nullptr;
  }
  ended.clear();
  ending_ = std::move(ended);
}

void Wire::TellClosed() {
  if (receiver_ == nullptr || std::exchange(closed_told_, true)) return;
  std::exchange(receiver_, nullptr)->OnClosed(close_status_);
}

// ---- completions and failures ----

void Wire::OnCompletion(const Completion& completion, WorkId id) {
  if (completion.status != CompletionStatus::kSuccess) return OnFailed(completion, id);
  switch (id.kind) {
    case WorkKind::kReceive:
      return OnArrival({id.value, completion.bytes});
    case WorkKind::kSend:
    case WorkKind::kBind:
      slots_.Completed();
      break;
    case WorkKind::kRead:
      slots_.Completed();
      OnReadDone(id.value);
      break;
    case WorkKind::kInvalidate:
      slots_.Completed();
      if (windows_.has_value()) windows_->Return(id.value);
      outgoing_->Revoked(id.value);
      break;
  }
  if (shut_) {
    LookAtLinger();
  } else {
    FlushSoon();
  }
}

// The first error says why; the connection ends when a receive comes back unused, for all that had
// arrived came before it.
void Wire::OnFailed(const Completion& completion, WorkId id) {
  if (shut_) return DestroyQueuePair();
  if (cause_.ok()) {
    device_->ReadEvents();  // which may say why: the peer left
    if (!live()) return;
  }
  Fail(FailureOf(completion, id.kind));
  if (id.kind != WorkKind::kReceive || !live()) return;
  if (!started_ && !early_.empty()) {
    flushed_early_ = true;
  } else {
    Shut(cause_);
  }
}

// The queue pair is of no use any more, for the reason `status` or one that came before.
void Wire::Fail(const absl::Status& status) {
  if (cause_.ok()) {
    // A dead completion queue is silent, and the first that is heard may be the peer's going.
    const absl::Status queue = queue_ != nullptr ? queue_->queue->status() : absl::OkStatus();
    cause_ = Named(queue.ok() ? status : queue);
    if (cause_.code() != absl::StatusCode::kUnavailable && LogEnabled(LogLevel::kWarning)) {
      device_->warnings().Warn(loop_.now(), absl::StrCat("closing connection: ", cause_.message()));
    }
  }
  if (pair_ != nullptr) pair_->Fail();
}

void Wire::OnQueueDead(const LoopQueue& queue, const absl::Status& status) {
  if (&queue != queue_.get() || pair_ == nullptr) return;
  if (shut_) return DestroyQueuePair();
  Fail(status);
  Shut(cause_);
}

void Wire::OnEvent(ConnectionEvent& event) {
  switch (event.kind) {
    case ConnectionEvent::Kind::kDisconnected:
    case ConnectionEvent::Kind::kDeviceRemoved:
      if (shut_) return DestroyQueuePair();
      return Fail(absl::UnavailableError(event.status.message()));
    default:
      return;
  }
}

void Wire::Violation(const absl::Status& rule) {
  ++counters_.violations;
  Fail(absl::UnavailableError(absl::StrCat("the peer broke a rule of the wire: ", rule.message())));
  if (LogEnabled(LogLevel::kWarning)) {
    device_->warnings().Warn(loop_.now(), absl::StrCat("closing connection: ", cause_.message()));
  }
  Shut(cause_);
}

// ---- the end ----

void Wire::Shut(absl::Status status) {
  if (shut_) return;
  shut_ = true;
  close_status_ = std::move(status);
  housekeeping_timer_.Disarm();
  const absl::Status why =
      close_status_.ok() ? Named(absl::CancelledError("the connection was closed")) : close_status_;
  if (cause_.ok() && !may_send_) KeepLastWords(why);
  outbox_.FailAll(why);
  order_.emplace(0);
  abandoned_.clear();
  controls_.Clear();
  revokes_.Clear();
  early_.Clear();
  if (outgoing_.has_value()) {
    outgoing_->Error(why);
    incoming_->Error();
    Perform();
  }
  device_->idle_memory().Watch(loop_, send_pool_);
  device_->idle_memory().Watch(loop_, receive_pool_);
  if (!cause_.ok()) {
    DestroyQueuePair();
  } else {
    Linger();
  }
  ResumeSoon();
}

// What a server says that closes at once, as that it has no room, before it may say anything.
void Wire::KeepLastWords(const absl::Status& why) {
  if (device_->silent_peers() >= kMaxSilentPeers) return;
  while (Outbox::Item* const item = outbox_.Front()) {
    if (last_words_.size() == kMaxBatch || !EagerLayoutOf(item->message).has_value()) break;
    last_words_.push_back(std::move(item->message));
    outbox_.Release(item->charge);
    outbox_.End(std::move(item->done), {why, /*sent=*/true, {}});  // it may be, or not
    outbox_.DropFront();
  }
  if (!last_words_.empty()) ++device_->silent_peers();
}

std::vector<Message> Wire::TakeLastWords() {
  if (!last_words_.empty()) --device_->silent_peers();
  return std::exchange(last_words_, {});
}

void Wire::SayLastWords() {
  for (Message& message : TakeLastWords()) {
    if (!MaySend(Kind::kMessage) || !PostEager(message, *EagerLayoutOf(message)).ok()) break;
  }
  Ring();
  Linger();
}

// What was posted is on its way: the peer gets it before the end.
void Wire::Linger() {
  if (pair_ == nullptr) return;
  if (slots_.tail_is_silent() && may_send_ && MaySend(Kind::kCredit)) {
    PostCredit(/*wants_completion=*/true);
    Ring();
  }
  LookAtLinger();
  if (pair_ == nullptr || linger_timer_.armed()) return;
  loop_.timers().Arm(linger_timer_, loop_.now() + kLinger);
}

void Wire::LookAtLinger() {
  if (slots_.idle() && last_words_.empty()) DestroyQueuePair();
}

void Wire::DestroyQueuePair() {
  linger_timer_.Disarm();
  housekeeping_timer_.Disarm();
  TakeLastWords();
  if (id_ != nullptr) {
    device_->Forget(*id_);
    id_->Disconnect();
  }
  if (windows_.has_value()) windows_->Clear();
  pair_.reset();
  id_.reset();
  number_ = 0;
  if (queue_ != nullptr) {
    device_->GiveBack(std::exchange(queue_, nullptr),
                      SendDepth(device_->device()) + settings_->options.receive_depth);
  }
  batched_ = 0;
  sent_.clear();
  slots_.Clear();
  if (outgoing_.has_value()) {
    outgoing_->Destroyed();
    incoming_->Destroyed();
    Perform();
  }
  foreign_sinks_.clear();
  windows_.reset();
  if (detached_) device_->Remove(place_);
}

// ---- what is looked at now and then ----

void Wire::KeepHouse() {
  if (!live()) return;
  const bool wants_memory = incoming_->starved();
  if (!wants_memory && outgoing_->zombie_bytes() == 0) return;
  const TimePoint when = loop_.now() + (wants_memory ? kMemoryRetry : kZombieCheck);
  if (housekeeping_timer_.armed() && housekeeping_timer_.deadline() <= when) return;
  loop_.timers().Arm(housekeeping_timer_, when);
}

void Wire::OnHousekeeping() {
  if (!live()) return;
  const absl::Status zombies = outgoing_->CheckZombies(loop_.now());
  if (!zombies.ok()) {
    Fail(zombies);
    return Shut(cause_);
  }
  incoming_->ExpireWaiting(loop_.now());
  FlushSoon();
  KeepHouse();
}

}  // namespace farcall::rdma
