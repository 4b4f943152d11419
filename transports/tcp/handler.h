// What a Stream hands to Asio and to its loop: handlers and tasks that keep it alive and allocate
// nothing.

#ifndef FARCALL_TRANSPORTS_TCP_HANDLER_H_
#define FARCALL_TRANSPORTS_TCP_HANDLER_H_

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "farcall/rpc/event_loop.h"

namespace farcall::tcp {

// Room for one operation of Asio, inside the object that waits.
class HandlerMemory {
 public:
  void* Take(size_t bytes) {
    if (taken_ || bytes > sizeof(room_)) return ::operator new(bytes);
    taken_ = true;
    return room_;
  }
  void Free(void* memory) {
    if (memory == room_) {
      taken_ = false;
    } else {
      ::operator delete(memory);
    }
  }

 private:
  alignas(std::max_align_t) std::byte room_[192];
  bool taken_ = false;
};

template <typename T>
class HandlerAllocator {
 public:
  using value_type = T;

  explicit HandlerAllocator(HandlerMemory& memory) : memory_(&memory) {}
  template <typename U>
  HandlerAllocator(const HandlerAllocator<U>& other) : memory_(other.memory_) {}  // NOLINT

  T* allocate(size_t count) { return static_cast<T*>(memory_->Take(count * sizeof(T))); }
  void deallocate(T* memory, size_t) { memory_->Free(memory); }

  template <typename U>
  bool operator==(const HandlerAllocator<U>& other) const {
    return memory_ == other.memory_;
  }

 private:
  template <typename U>
  friend class HandlerAllocator;
  HandlerMemory* memory_;
};

// Calls a member of `owner`, which lives until then, with the result of a wait.
template <typename Owner>
class WaitHandler {
 public:
  using Method = void (Owner::*)(const boost::system::error_code&);
  using allocator_type = HandlerAllocator<void*>;

  WaitHandler(std::shared_ptr<Owner> owner, Method method, HandlerMemory& memory)
      : owner_(std::move(owner)), method_(method), memory_(&memory) {}

  allocator_type get_allocator() const { return allocator_type(*memory_); }
  void operator()(const boost::system::error_code& error) { ((*owner_).*method_)(error); }

 private:
  std::shared_ptr<Owner> owner_;
  Method method_;
  HandlerMemory* memory_;
};

// Calls a member of `owner` from the loop. From Hold to Run the owner lives.
template <typename Owner>
class OwnedTask final : public LoopTask {
 public:
  using Method = void (Owner::*)();
  OwnedTask(Owner& owner, Method method) : owner_(owner), method_(method) {}

  void SubmitTo(EventLoop& loop) {
    if (!Hold()) return;
    loop.Submit(*this);
  }
  void RunAtEndOfTurnOf(EventLoop& loop) {
    if (!Hold()) return;
    loop.RunAtEndOfTurn(*this);
  }

 private:
  // False: it is held, and will run.
  bool Hold() {
    if (keep_ != nullptr) return false;
    keep_ = owner_.shared_from_this();
    return true;
  }
  void Run() override {
    const std::shared_ptr<Owner> keep = std::move(keep_);
    (owner_.*method_)();
  }

  void Drop() override { keep_.reset(); }

  Owner& owner_;
  const Method method_;
  std::shared_ptr<Owner> keep_;
};

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_HANDLER_H_
