// Fifo: a queue in a ring that grows to what it once needed and stays so large: no allocation in
// steady state.

#ifndef FARCALL_TRANSPORTS_RDMA_FIFO_H_
#define FARCALL_TRANSPORTS_RDMA_FIFO_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace farcall::rdma {

// T holds nothing when it was moved from.
template <typename T>
class Fifo {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T& operator[](size_t index) { return items_[(first_ + index) & (items_.size() - 1)]; }
  T& front() { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }

  void Push(T item) { Add() = std::move(item); }
  // The place of one more, which holds what an earlier one left.
  T& Add() {
    if (size_ == items_.size()) Grow();
    return items_[(first_ + size_++) & (items_.size() - 1)];
  }
  T Pop() {
    T& item = front();
    Drop();
    return std::move(item);
  }
  // The same for one that was moved from.
  void Drop() {
    first_ = (first_ + 1) & (items_.size() - 1);
    --size_;
  }
  void Clear() {
    while (!empty()) (void)Pop();
  }

 private:
  void Grow() {
    std::vector<T> larger(items_.empty() ? 8 : 2 * items_.size());
    for (size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    items_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> items_;  // a power of two
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace farcall::rdma

#endif  // FARCALL_TRANSPORTS_RDMA_FIFO_H_
