#include "farcall/services/tour/shelf.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace farcall::services {
namespace {

// How often a waiting handler looks; a real service would be woken by Put.
constexpr std::chrono::milliseconds kLook(5);

std::string Text(const flatbuffers::String* field) { return field == nullptr ? "" : field->str(); }

}  // namespace

absl::Status ShelfImpl::Put(Context& context, const PutRequest& request, Reply<PutReply>& reply) {
  const std::string name = Text(request.name());
  if (name.empty()) return absl::InvalidArgumentError("a thing needs a name");
  {
    MutexLock lock(mutex_);
    things_[name] = context.attachment().view();
  }
  if (const auto owner = context.metadata().Find("owner")) {
    context.AddReplyMetadata("kept-for", std::string(*owner));
  }
  reply.Finish(CreatePutReply(reply, context.attachment().size()));
  return absl::OkStatus();
}

absl::Status ShelfImpl::Get(Context& /*context*/, const GetRequest& request,
                            Reply<GetReply>& reply) {
  const std::string name = Text(request.name());
  MutexLock lock(mutex_);
  const auto found = things_.find(name);
  if (found == things_.end()) {
    absl::Status status = absl::NotFoundError(absl::StrCat("there is no ", name, " here"));
    status.SetPayload("shelf/names", absl::Cord(Names()));
    return status;
  }
  absl::StatusOr<Buffer> bytes = reply.AllocateAttachment(found->second.size());
  if (!bytes.ok()) return bytes.status();
  std::transform(found->second.begin(), found->second.end(), bytes->data(),
                 [](char c) { return static_cast<std::byte>(c); });
  reply.Attach(*std::move(bytes));
  reply.Finish(CreateGetReply(reply, found->second.size()));
  return absl::OkStatus();
}

absl::Status ShelfImpl::List(Context& /*context*/, const ListRequestT& /*request*/,
                             ListReplyT& reply) {
  MutexLock lock(mutex_);
  for (const auto& [name, thing] : things_) reply.names.push_back(name);
  return absl::OkStatus();
}

asio::awaitable<absl::Status> ShelfImpl::Wait(Context& /*context*/, Msg<WaitRequest> request,
                                              Reply<WaitReply>& reply) {
  const std::string name = Text(request->name());
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (!Has(name)) {
    timer.expires_after(kLook);
    co_await timer.async_wait(asio::use_awaitable);  // throws once the call is cancelled
  }
  reply.Finish(CreateWaitReply(reply));
  co_return absl::OkStatus();
}

bool ShelfImpl::Has(const std::string& name) const {
  MutexLock lock(mutex_);
  return things_.contains(name);
}

std::string ShelfImpl::Names() const {
  std::string names;
  for (const auto& [name, thing] : things_) absl::StrAppend(&names, names.empty() ? "" : " ", name);
  return names;
}

}  // namespace farcall::services
