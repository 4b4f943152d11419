// FdWatch: tells when a descriptor of the device, which stays the device's, is readable. Waits in
// the loop's io_context, once for each Wait, and allocates nothing for it. Driver only.

#ifndef FARCALL_TRANSPORTS_RDMA_FD_WATCH_H_
#define FARCALL_TRANSPORTS_RDMA_FD_WATCH_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "farcall/rpc/asio.h"

namespace farcall::rdma {

class FdWatch {
 public:
  // `ready` runs for each Wait once; never after the destruction. It may destroy the FdWatch.
  FdWatch(asio::io_context& io, int fd, std::function<void()> ready)
      : descriptor_(io), state_(std::make_shared<State>()) {
    state_->ready = std::move(ready);
    boost::system::error_code error;
    descriptor_.assign(fd, error);  // fails for want of memory: then nothing is ever readable
  }
  ~FdWatch() {
    state_->ready = nullptr;
    if (descriptor_.is_open()) descriptor_.release();
  }
  FdWatch(const FdWatch&) = delete;
  FdWatch& operator=(const FdWatch&) = delete;

  // A no-op while one waits already.
  void Wait() {
    if (std::exchange(state_->waits, true) || !descriptor_.is_open()) return;
    descriptor_.async_wait(Descriptor::wait_read, Handler{state_});
  }

 private:
  using Descriptor = asio::posix::basic_stream_descriptor<asio::io_context::executor_type>;

  struct State {
    std::function<void()> ready;
    bool waits = false;
    // Room for Asio's operation.
    bool taken = false;
    alignas(std::max_align_t) std::byte room[192];
  };

  template <typename T>
  struct Allocator {
    using value_type = T;
    explicit Allocator(std::shared_ptr<State> of) : state(std::move(of)) {}
    template <typename U>
    // NOLINTNEXTLINE(google-explicit-constructor): Asio's rebinding is implicit
    Allocator(const Allocator<U>& other) : state(other.state) {}

    T* allocate(size_t count) {
      const size_t bytes = count * sizeof(T);
      if (state->taken || bytes > sizeof(state->room)) {
        return static_cast<T*>(::operator new(bytes));
      }
      state->taken = true;
      return reinterpret_cast<T*>(state->room);
    }
    void deallocate(T* memory, size_t) {
      if (static_cast<void*>(memory) == static_cast<void*>(state->room)) {
        state->taken = false;
      } else {
        ::operator delete(memory);
      }
    }
    template <typename U>
    bool operator==(const Allocator<U>& other) const {
      return state == other.state;
    }

    std::shared_ptr<State> state;
  };

  struct Handler {
    using allocator_type = Allocator<void*>;
    allocator_type get_allocator() const { return allocator_type(state); }
    void operator()(const boost::system::error_code& error) {
      state->waits = false;
      if (error || state->ready == nullptr) return;
      const std::shared_ptr<State> keep = state;
      const std::function<void()> ready = keep->ready;
      ready();
    }
    std::shared_ptr<State> state;
  };

  Descriptor descriptor_;
  const std::shared_ptr<State> state_;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_FD_WATCH_H_
