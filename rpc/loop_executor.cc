#include "farcall/rpc/loop_executor.h"

#include <new>

#include "farcall/rpc/loop_state.h"

namespace farcall {

asio::io_context& LoopExecutor::query(asio::execution::context_t) const noexcept {
  return loop_->UseAsio();
}

bool LoopExecutor::running_in_this_thread() const noexcept { return loop_->DrivenByThisThread(); }

void* LoopExecutor::Allocate(LoopState* loop, size_t bytes) {
  return loop->task_memory.Allocate(bytes);
}

void LoopExecutor::Free(LoopState* loop, void* block, size_t bytes) {
  loop->task_memory.Free(block, bytes);
}

void LoopExecutor::Submit(LoopState* loop, LoopTask& task) { loop->Submit(task); }

namespace {

// The smallest size class that holds `bytes`; sizes.size() when none does.
template <size_t Count>
size_t ClassOf(const std::array<size_t, Count>& sizes, size_t bytes) {
  size_t index = 0;
  while (index < Count && sizes[index] < bytes) ++index;
  return index;
}

}  // namespace

TaskMemory::~TaskMemory() {
  for (Block*& first : free_) {
    while (Block* block = first) {
      first = block->next;
      ::operator delete(block);
    }
  }
}

void* TaskMemory::Allocate(size_t bytes) {
  const size_t index = ClassOf(kSizes, bytes);
  if (index == kSizes.size()) return ::operator new(bytes);
  {
    SpinLock lock(mutex_);
    if (Block* block = free_[index]) {
      free_[index] = block->next;
      --kept_[index];
      return block;
    }
  }
  return ::operator new(kSizes[index]);
}

void TaskMemory::Free(void* block, size_t bytes) {
  const size_t index = ClassOf(kSizes, bytes);
  if (index < kSizes.size()) {
    SpinLock lock(mutex_);
    if (kept_[index] < kKept) {
      free_[index] = new (block) Block{free_[index]};
      ++kept_[index];
      return;
    }
  }
  ::operator delete(block);
}

}  // namespace farcall
