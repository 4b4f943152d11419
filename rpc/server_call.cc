#include "farcall/rpc/server_call.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/rpc/probe.h"
#include "farcall/rpc/server_loop.h"
#include "farcall/rpc/server_session.h"

namespace farcall {

ServerCall::ServerCall(ServerLoop& home) : Context(home.loop().executor()), home_(home) {}

Message ServerCall::TakeRequest() {
  Message taken;
  taken.body = std::move(request_.body);
  taken.attachment = std::move(request_.attachment);
  return taken;
}

void ServerCall::Finish(absl::Status status, MessageBuilder& reply) {
  KeepResult(std::move(status), reply);
  if (home_.loop().IsDriver()) {
    SendResult();
  } else {
    home_.loop().Submit(*this);
  }
}

void ServerCall::KeepResult(absl::Status status, MessageBuilder& reply) {
  FARCALL_PROBE(kHandled);
  status_ = std::move(status);
  if (!status_.ok()) return;
  if (!reply.finished()) {
    NoteFault();
    status_ = absl::InternalError(
        absl::StrCat("the handler of ", Absl(method_->name),
                     " returned OK without a reply: it must call reply.Finish or reply.Pack"));
    return;
  }
  absl::StatusOr<Buffer> body = reply.Release();
  if (!body.ok()) {
    status_ = body.status();
    return;
  }
  reply_body_ = *std::move(body);
  reply_attachment_ = reply.TakeAttachment();
}

void ServerCall::Run() { SendResult(); }

void ServerCall::SendResult() {
  absl::StatusCode code = absl::StatusCode::kResourceExhausted;
  // Also when the reply finds no memory.
  const absl::Cleanup over = [&] {
    // The turn's time would be that of before an inline handler.
    const Duration took = home_.loop().clock().Now() - whole_at_;
    tally_->End(code, took);
    if (session_ != nullptr) {
      session_->Forget(*this);  // after the reply: it need not wait for this
      session_->NoteEnd(took);
    }
    home_.GiveBack(*this);
    home_.tally().calls_ended.IncrementAfterAll();
  };
  if (at_fault_)
    home_.Warn(absl::StrCat("server: ", status_.message(), ", called by ", peer().address));
  if (session_ != nullptr && !cancelled()) {
    code = session_->Reply(*this);
  } else {
    code = status_.code();
    ++home_.tally().replies_dropped;
    ++tally_->dropped;
  }
}

void ServerCall::HandlerDestroyed() {
  status_ = absl::InternalError(absl::StrCat(
      "the handler of ", Absl(method_->name),
      " was destroyed before it finished: something that it awaited dropped its completion"));
  NoteFault();
  home_.loop().Submit(*this);
}

void ServerCall::Cancel() {
  if (cancelled_.exchange(true, std::memory_order_acq_rel)) return;
  signal_.emit(asio::cancellation_type::terminal);
}

void ServerCall::OnTimer() {
  if (session_ != nullptr) {
    session_->Expire(*this);
  } else {
    Cancel();
  }
}

void ServerCall::Forget() {
  peer_.reset();
  pool_.reset();
}

void ServerCall::Clear() {
  Disarm();
  signal_.slot().clear();
  cancelled_.store(false, std::memory_order_relaxed);
  request_ = Message();
  reply_metadata_.clear();
  if (session_ == nullptr) Forget();
  session_ = nullptr;
  listed_ = false;
  whole_ = false;
  status_ = absl::OkStatus();
  at_fault_ = false;
  reply_body_.Reset();
  reply_attachment_.Reset();
}

}  // namespace farcall
