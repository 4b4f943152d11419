#include "farcall/transports/rdma/softnic/completion_queue.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "farcall/transports/rdma/softnic/queue_pair.h"

namespace farcall::softnic {

absl::StatusOr<std::shared_ptr<CompletionCore>> CompletionCore::Create(uint32_t depth) {
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  FileDescriptor notice(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (!epoll || !notice || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, notice.get(), &event) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("softnic: no completion queue: ", std::strerror(errno),
                     "; look at the limit of open files (ulimit -n)"));
  }
  absl::StatusOr<Mapping> memory = MapPrivate(std::bit_ceil(depth) * sizeof(Entry));
  if (!memory.ok()) return memory.status();
  return std::shared_ptr<CompletionCore>(
      new CompletionCore(depth, std::move(epoll), std::move(notice), *std::move(memory)));
}

CompletionCore::CompletionCore(uint32_t depth, FileDescriptor epoll, FileDescriptor notice,
                               Mapping memory)
    : depth_(depth),
      epoll_(std::move(epoll)),
      notice_(std::move(notice)),
      memory_(std::move(memory)),
      ring_(reinterpret_cast<Entry*>(memory_.base())),
      mask_(std::bit_ceil(depth) - 1) {}

void CompletionCore::Forget(const SoftQueuePair& pair) {
  if (guard_.inherited()) return;
  for (uint32_t i = polled_; i != pushed_; ++i) {
    Entry& entry = ring_[i & mask_];
    if (entry.pair == &pair) entry.pair = nullptr;
  }
}

void CompletionCore::Watch(int socket, SoftQueuePair& pair) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &pair}};
  // Fails only for want of memory in the kernel; the connection's end is seen by its channel then.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event);
}

void CompletionCore::Unwatch(int socket) {
  if (!guard_.inherited()) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
}

void CompletionCore::Push(const rdma::Completion& completion, SoftQueuePair& pair, Side side,
                          uint32_t released) {
  if (overrun_) return;
  if (pushed_ - polled_ == depth_) return Overrun();
  ring_[pushed_++ & mask_] = {completion, &pair, side, released};
  if (armed_ && !polling_) Notify();
}

void CompletionCore::Overrun() {
  if (overrun_) return;
  overrun_ = true;
  roster_.FailAll();
  Notify();
}

void CompletionCore::Notify() {
  armed_ = false;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(notice_.get(), &one, sizeof one);
}

size_t CompletionCore::Poll(std::span<rdma::Completion> completions) {
  if (guard_.inherited()) return 0;
  if (pushed_ - polled_ < completions.size()) {
    polling_ = true;
    roster_.Drive();
    polling_ = false;
  }
  size_t count = 0;
  while (count < completions.size() && polled_ != pushed_) {
    const Entry& entry = ring_[polled_++ & mask_];
    if (entry.pair == nullptr) continue;
    entry.pair->Release(entry.side, entry.released);
    completions[count++] = entry.completion;
  }
  if (polled_ == pushed_) polled_ = pushed_ = 0;
  return count;
}

bool CompletionCore::Arm() {
  if (guard_.inherited()) return true;
  armed_ = true;
  const bool empty = polled_ == pushed_ && !overrun_;
  return roster_.Arm() && empty;
}

void CompletionCore::Drain() {
  if (guard_.inherited()) return;
  // A few at a time: what is left keeps fd() readable.
  epoll_event events[16];
  const int count = ::epoll_wait(epoll_.get(), events, 16, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == nullptr) {
      uint64_t notices = 0;
      [[maybe_unused]] const ssize_t got = ::read(notice_.get(), &notices, sizeof notices);
      continue;
    }
    static_cast<SoftQueuePair*>(events[i].data.ptr)->ReadPackets(true);
  }
}

absl::Status CompletionCore::status() const {
  if (!overrun_) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "softnic: completion queue overrun: more than ", depth_,
      " completions waited; its depth must cover all send and receive queues that complete on it"));
}

}  // namespace farcall::softnic
