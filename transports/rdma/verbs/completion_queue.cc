#include "farcall/transports/rdma/verbs/completion_queue.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/verbs/errors.h"
#include "farcall/transports/rdma/verbs/limits.h"
#include "farcall/transports/rdma/verbs/queue_pair.h"

namespace farcall::verbs {

absl::StatusOr<std::shared_ptr<CompletionCore>> CompletionCore::Create(
    std::shared_ptr<Adapter> adapter, uint32_t depth) {
  const uint32_t most = adapter->capabilities().max_completion_depth;
  if (depth == 0 || depth > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(adapter->name(), ": completion queues have depths of 1 to ", most));
  }
  ibv_context* const context = adapter->context();
  ibv_comp_channel* const channel = ibv_create_comp_channel(context);
  if (channel == nullptr) {
    return SystemError(absl::StrCat(adapter->name(), ": no completion channel"), errno);
  }
  ::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  // One after the other, so that the interrupts of several loops are spread.
  static std::atomic<uint32_t> next{0};
  const auto vector =
      static_cast<int>(next++ % static_cast<uint32_t>(std::max(context->num_comp_vectors, 1)));
  ibv_cq* const queue = ibv_create_cq(context, static_cast<int>(depth), nullptr, channel, vector);
  if (queue == nullptr) {
    const int error = errno;
    ibv_destroy_comp_channel(channel);
    return SystemError(
        absl::StrCat(adapter->name(), ": no completion queue of ", depth, " entries"), error);
  }
  return std::shared_ptr<CompletionCore>(
      new CompletionCore(std::move(adapter), depth, channel, queue));
}

CompletionCore::CompletionCore(std::shared_ptr<Adapter> adapter, uint32_t depth,
                               ibv_comp_channel* channel, ibv_cq* queue)
    : adapter_(std::move(adapter)), depth_(depth), channel_(channel), queue_(queue) {
  adapter_->Watch(queue_, overrun_);
}

CompletionCore::~CompletionCore() {
  if (guard_.inherited()) return;
  adapter_->Forget(queue_);
  AcknowledgeNotices();  // or destroying waits for it
  ibv_destroy_cq(queue_);
  ibv_destroy_comp_channel(channel_);
}

// ---- completions ----

// Whose it is, or null: of a queue pair that is gone, or of a request that was flushed already.
VerbsQueuePair* CompletionCore::Translate(const ibv_wc& from, rdma::Completion& to) {
  const AdapterWorkId id = AdapterWorkId::Unpack(from.wr_id);
  VerbsQueuePair* const pair = id.place < pairs_.size() ? pairs_[id.place] : nullptr;
  return pair != nullptr && pair->Complete(from, id, to) ? pair : nullptr;
}

size_t CompletionCore::Poll(std::span<rdma::Completion> completions) {
  if (guard_.inherited()) return 0;
  size_t count = ready_.empty() ? 0 : TakeReady(completions);
  ibv_wc taken[kCompletionsPerPoll];
  while (count < completions.size()) {
    const size_t wanted = std::min(kCompletionsPerPoll, completions.size() - count);
    const int got = ibv_poll_cq(queue_, static_cast<int>(wanted), taken);
    for (int i = 0; i < got; ++i) {
      if (Translate(taken[i], completions[count]) != nullptr) ++count;
    }
    if (got < static_cast<int>(wanted)) break;
  }
  if (!ready_.empty()) count += TakeReady(completions.subspan(count));
  if (count == 0 && !ending_.empty()) return TakeFlushed(completions);
  return count;
}

size_t CompletionCore::TakeReady(std::span<rdma::Completion> completions) {
  size_t count = 0;
  for (; count < completions.size() && !ready_.empty(); ++count) {
    completions[count] = ready_.front().completion;
    ready_.pop_front();
  }
  return count;
}

// What queue pairs in ERR still owe, when the adapter has nothing more to say.
size_t CompletionCore::TakeFlushed(std::span<rdma::Completion> completions) {
  const auto now = std::chrono::steady_clock::now();
  size_t count = 0;
  for (const Ending& ending : ending_) {
    while (count < completions.size() && ending.pair->Flush(ending.side, now, completions[count])) {
      ++count;
    }
  }
  std::erase_if(ending_, [](const Ending& ending) { return ending.pair->Flushed(ending.side); });
  return count;
}

// ---- notices ----

bool CompletionCore::Arm() {
  if (guard_.inherited()) return true;
  if (!ready_.empty() || !ending_.empty()) return false;
  if (armed_) return true;
  armed_ = ibv_req_notify_cq(queue_, 0) == 0;
  return armed_;
}

void CompletionCore::Drain() {
  if (guard_.inherited() || !armed_) return;
  // Each arming brings one.
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_, &queue, &context) != 0) return;
  armed_ = false;
  if (++unacknowledged_ >= kNoticesPerAck) AcknowledgeNotices();
}

void CompletionCore::AcknowledgeNotices() {
  if (unacknowledged_ != 0) ibv_ack_cq_events(queue_, std::exchange(unacknowledged_, 0));
}

absl::Status CompletionCore::status() {
  if (guard_.inherited()) return absl::OkStatus();
  adapter_->ReadAsyncEvents();
  const bool overrun = overrun_.load(std::memory_order_relaxed);
  if (!overrun && !adapter_->failed()) return absl::OkStatus();
  for (VerbsQueuePair* const pair : pairs_) {
    if (pair != nullptr) pair->Fail();
  }
  if (!overrun) {
    return absl::UnavailableError(
        absl::StrCat("the adapter ", adapter_->name(), " failed: look at the system's log"));
  }
  return absl::InternalError(absl::StrCat(
      adapter_->name(), ": completion queue overrun: more than ", depth_,
      " completions waited; its depth must cover all send and receive queues that complete on it"));
}

// ---- queue pairs ----

uint32_t CompletionCore::Add(VerbsQueuePair& pair) {
  if (free_places_.empty()) {
    pairs_.push_back(&pair);
    return static_cast<uint32_t>(pairs_.size() - 1);
  }
  const uint32_t place = free_places_.back();
  free_places_.pop_back();
  pairs_[place] = &pair;
  return place;
}

void CompletionCore::Remove(VerbsQueuePair& pair, uint32_t place) {
  // Some adapters keep the completions of what is gone: they are taken out now, so that its place
  // can be another's.
  ibv_wc taken[kCompletionsPerPoll];
  for (;;) {
    const int got = ibv_poll_cq(queue_, static_cast<int>(kCompletionsPerPoll), taken);
    for (int i = 0; i < got; ++i) {
      Ready ready;
      ready.pair = Translate(taken[i], ready.completion);
      if (ready.pair != nullptr) ready_.push_back(ready);
    }
    if (got < static_cast<int>(kCompletionsPerPoll)) break;
  }
  std::erase_if(ready_, [&](const Ready& ready) { return ready.pair == &pair; });
  std::erase_if(ending_, [&](const Ending& ending) { return ending.pair == &pair; });
  pairs_[place] = nullptr;
  free_places_.push_back(place);
}

void CompletionCore::AwaitFlush(VerbsQueuePair& pair, Side side) {
  const bool known = std::any_of(ending_.begin(), ending_.end(), [&](const Ending& ending) {
    return ending.pair == &pair && ending.side == side;
  });
  if (!known) ending_.push_back({&pair, side});
}

}  // namespace farcall::verbs
