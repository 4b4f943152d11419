#include "farcall/services/echo/echo_impl.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"

namespace farcall::services {
namespace {

// Attachments that were asked for are sent from here, as a blob store would send from its cache.
std::span<const std::byte> Zeros(size_t bytes) {
  static const auto* zeros = new std::vector<std::byte>(EchoImpl::kMaxReplyAttachment);
  return {zeros->data(), bytes};
}

}  // namespace

absl::Status EchoImpl::Say(Context& /*context*/, const SayRequest& request,
                           Reply<SayReply>& reply) {
  reply.Finish(CreateSayReply(reply, reply.CreateString(request.text())));
  return absl::OkStatus();
}

absl::Status EchoImpl::Bytes(Context& context, const BytesRequest& request,
                             Reply<BytesReply>& reply) {
  if (request.reply_attachment_bytes() > kMaxReplyAttachment) {
    return absl::InvalidArgumentError(absl::StrCat("reply_attachment_bytes is ",
                                                   request.reply_attachment_bytes(),
                                                   "; the limit is ", kMaxReplyAttachment));
  }
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> data;
  if (request.data() != nullptr) {
    data = reply.CreateVector(request.data()->data(), request.data()->size());
  }
  if (context.attachment()) {
    reply.Attach(context.TakeAttachment());
  } else if (request.reply_attachment_bytes() > 0) {
    reply.Attach(WrapBytes(
        Zeros(request.reply_attachment_bytes()), [](void*) {}, nullptr));
  }
  reply.Finish(CreateBytesReply(reply, data));
  return absl::OkStatus();
}

absl::Status EchoImpl::Discard(Context& context, const DiscardRequest& request,
                               Reply<DiscardReply>& reply) {
  std::span<const std::byte> data;
  if (request.data() != nullptr) {
    data = {reinterpret_cast<const std::byte*>(request.data()->data()), request.data()->size()};
  }
  uint64_t first = 0;
  uint64_t last = 0;
  if (data.size() >= sizeof(uint64_t)) {
    first = LoadLittle<uint64_t>(data.data());
    last = LoadLittle<uint64_t>(data.last(sizeof(uint64_t)).data());
  }
  reply.Finish(CreateDiscardReply(reply, data.size(), context.attachment().size(), first, last));
  return absl::OkStatus();
}

}  // namespace farcall::services
