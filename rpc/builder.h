// Builder<T>: a FlatBufferBuilder whose bytes grow inside a transport's memory, so that what was
// built is sent in place.
//
// Use it as any FlatBufferBuilder, then Finish(offset). The first allocation is a slot sized by the
// hint; a message that outgrows it is copied into a larger slot (counted). Not thread-safe; may be
// built on any thread.

#ifndef FARCALL_RPC_BUILDER_H_
#define FARCALL_RPC_BUILDER_H_

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/rpc/buffer_pool.h"

namespace farcall {

// The memory behind one builder: at most two leases, the current one and, while it grows, the
// larger one.
class BuilderMemory : public flatbuffers::Allocator {
 public:
  explicit BuilderMemory(std::shared_ptr<BufferPool> pool) : pool_(std::move(pool)) {}
  BuilderMemory(BuilderMemory&& other) noexcept = default;
  BuilderMemory& operator=(BuilderMemory&& other) noexcept = default;

  // flatbuffers has no way to report failure here: when the pool is dry the bytes come from the
  // heap, and status() says so.
  uint8_t* allocate(size_t bytes) override;
  void deallocate(uint8_t* memory, size_t bytes) override;

  // Gives the lease of `memory` away.
  Buffer Take(const uint8_t* memory);
  const absl::Status& status() const { return status_; }
  const std::shared_ptr<BufferPool>& pool() const { return pool_; }

 private:
  std::shared_ptr<BufferPool> pool_;
  Buffer current_;
  Buffer larger_;
  absl::Status status_;
};

// The part of Builder<T> that does not depend on T.
class MessageBuilder : private BuilderMemory, public flatbuffers::FlatBufferBuilder {
 public:
  // `bytes_hint`: about how large the message will be; 0 for a small one.
  MessageBuilder(std::shared_ptr<BufferPool> pool, size_t bytes_hint);
  MessageBuilder(MessageBuilder&& other) noexcept;
  MessageBuilder& operator=(MessageBuilder&& other) = delete;

  // A raw attachment that travels beside the message.
  void Attach(Buffer attachment) { attachment_ = std::move(attachment); }
  // Memory for an attachment that is sent without a copy. RESOURCE_EXHAUSTED when the pool is dry.
  absl::StatusOr<Buffer> AllocateAttachment(size_t bytes) { return pool()->Allocate(bytes); }

  using BuilderMemory::pool;
  // Finish was called, and neither Release nor Clear since.
  bool finished() const { return finished_flag_ && FlatBufferBuilder::finished; }

  // Gives the finished bytes and the attachment away. FAILED_PRECONDITION before Finish;
  // RESOURCE_EXHAUSTED when the memory ran out while it was built.
  absl::StatusOr<Buffer> Release();
  Buffer TakeAttachment() { return std::move(attachment_); }

 protected:
  void MarkFinished() { finished_flag_ = true; }

 private:
  void AdoptMovedParts();

  Buffer attachment_;
  bool finished_flag_ = false;
};

template <class T>
class Builder : public MessageBuilder {
 public:
  using MessageBuilder::MessageBuilder;
  Builder(Builder&& other) noexcept = default;
  Builder(const Builder&) = delete;  // pass it on: client.Say(std::move(request))

  // Ends the message with `root`, which was built by this builder. Once.
  void Finish(flatbuffers::Offset<T> root) {
    // A message grows from its slot's end to its front: only a length of whole units makes it begin
    // where a receiver wants it, so that it can be read in the memory that it was built in.
    TrackMinAlign(kBufferAlignment);
    flatbuffers::FlatBufferBuilder::Finish(root);
    MarkFinished();
  }

  // Builds and finishes the message from flatc's object API (T::NativeTableType).
  template <class Native = typename T::NativeTableType>
  void Pack(const Native& native) {
    Finish(T::Pack(*this, &native));
  }
};

}  // namespace farcall

#endif  // FARCALL_RPC_BUILDER_H_
