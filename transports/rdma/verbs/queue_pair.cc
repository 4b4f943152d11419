#include "farcall/transports/rdma/verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/transports/rdma/verbs/errors.h"
#include "farcall/transports/rdma/verbs/limits.h"

namespace farcall::verbs {

using rdma::CompletionStatus;
using rdma::Opcode;
using rdma::QueuePairState;

namespace {

CompletionStatus StatusOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return CompletionStatus::kSuccess;
    case IBV_WC_LOC_LEN_ERR:
      return CompletionStatus::kLocalLengthError;
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
      return CompletionStatus::kLocalQueuePairError;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return CompletionStatus::kLocalProtectionError;
    case IBV_WC_WR_FLUSH_ERR:
      return CompletionStatus::kFlushed;
    case IBV_WC_MW_BIND_ERR:
      return CompletionStatus::kBindError;
    case IBV_WC_BAD_RESP_ERR:
      return CompletionStatus::kBadResponse;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return CompletionStatus::kRemoteInvalidRequest;
    case IBV_WC_REM_ACCESS_ERR:
      return CompletionStatus::kRemoteAccessError;
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return CompletionStatus::kRemoteOperationError;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return CompletionStatus::kRetryExceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return CompletionStatus::kReceiverNotReady;
    default:
      return CompletionStatus::kFatal;
  }
}

ibv_sge SgeOf(const rdma::Sge& sge) {
  return {.addr = reinterpret_cast<uintptr_t>(sge.address), .length = sge.length, .lkey = sge.lkey};
}

// Asks for less inline until the adapter grants it.
int CreateAtAdapter(rdma_cm_id* id, ibv_pd* domain, ibv_qp_init_attr& wanted) {
  const ibv_qp_init_attr asked = wanted;
  for (uint32_t bytes = asked.cap.max_inline_data;; bytes /= 2) {
    wanted = asked;
    wanted.cap.max_inline_data = bytes;
    if (rdma_create_qp(id, domain, &wanted) == 0) return 0;
    if (bytes == 0 || (errno != EINVAL && errno != ENOMEM)) return errno;
  }
}

absl::Status Inherited() {
  return absl::FailedPreconditionError("this queue pair belongs to the parent process");
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsQueuePair>> VerbsQueuePair::Create(
    std::shared_ptr<CmId> id, std::shared_ptr<DomainCore> domain,
    const rdma::QueuePairOptions& options, QueuePairOwner& owner) {
  if (options.send_queue == nullptr || options.receive_queue == nullptr) {
    return absl::InvalidArgumentError("a queue pair needs its completion queues");
  }
  const rdma::Capabilities& can = domain->adapter().capabilities();
  ibv_qp_init_attr wanted{};
  wanted.send_cq = static_cast<Completions*>(options.send_queue)->core()->get();
  wanted.recv_cq = static_cast<Completions*>(options.receive_queue)->core()->get();
  wanted.cap = {.max_send_wr = options.send_depth,
                .max_recv_wr = options.receive_depth,
                .max_send_sge = can.max_send_sges,
                .max_recv_sge = 1,
                .max_inline_data = std::min(options.max_inline, kMaxInline)};
  wanted.qp_type = IBV_QPT_RC;
  if (const int error = CreateAtAdapter(id->get(), domain->get(), wanted); error != 0) {
    return SystemError(absl::StrCat(can.name, ": no queue pair with send and receive queues of ",
                                    options.send_depth, " and ", options.receive_depth,
                                    " (ibv_devinfo -v prints max_qp and max_qp_wr)"),
                       error);
  }
  return std::unique_ptr<VerbsQueuePair>(
      new VerbsQueuePair(std::move(id), std::move(domain), options, owner,
                         std::min(wanted.cap.max_inline_data, kMaxInline)));
}

VerbsQueuePair::VerbsQueuePair(std::shared_ptr<CmId> id, std::shared_ptr<DomainCore> domain,
                               const rdma::QueuePairOptions& options, QueuePairOwner& owner,
                               uint32_t max_inline)
    : id_(std::move(id)),
      domain_(std::move(domain)),
      owner_(&owner),
      pair_(id_->get()->qp),
      number_(pair_->qp_num),
      max_inline_(max_inline),
      reorders_(!domain_->adapter().capabilities().acknowledges),
      sends_(static_cast<Completions*>(options.send_queue)->core(), options.send_depth),
      receives_(static_cast<Completions*>(options.receive_queue)->core(), options.receive_depth) {
  sends_.place = sends_.completions->Add(*this);
  receives_.place = receives_.completions->Add(*this);
}

VerbsQueuePair::~VerbsQueuePair() {
  if (guard_.inherited()) return;
  if (owner_ != nullptr) owner_->OnQueuePairGone();
  rdma_destroy_qp(id_->get());
  sends_.completions->Remove(*this, sends_.place);
  receives_.completions->Remove(*this, receives_.place);
}

// ---- posting ----

// Links of a list on the stack: nothing in it is read before it is written.
struct VerbsQueuePair::SendList {
  ibv_send_wr works[kRequestsPerDoorbell];
  ibv_sge sges[kRequestsPerDoorbell][rdma::kMaxSges];
};

absl::Status VerbsQueuePair::CannotPost() const {
  if (guard_.inherited()) return Inherited();
  return absl::FailedPreconditionError(
      absl::StrCat("queue pair ", number_, " is not connected yet"));
}

absl::Status VerbsQueuePair::Full(std::string_view which) const {
  return absl::ResourceExhaustedError(
      absl::StrCat("the ", Absl(which), " queue of queue pair ", number_, " is full"));
}

absl::Status VerbsQueuePair::CheckLengths(const rdma::SendRequest& request) const {
  const rdma::Capabilities& can = domain_->adapter().capabilities();
  uint64_t bytes = 0;
  for (size_t i = 0; i < std::min<size_t>(request.sge_count, rdma::kMaxSges); ++i) {
    bytes += request.sges[i].length;
  }
  const bool read = request.opcode == Opcode::kRead;
  const uint64_t most =
      read ? can.max_read_bytes : (request.inlined ? uint64_t{max_inline_} : can.max_send_bytes);
  if (request.sge_count <= (read ? can.max_read_sges : can.max_send_sges) && bytes <= most) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "queue pair ", number_, ": a ", Absl(ToString(request.opcode)), " of ", bytes, " bytes in ",
      request.sge_count, " segments", request.inlined ? ", inline," : "", " is too large"));
}

absl::Status VerbsQueuePair::Prepare(const rdma::SendRequest& request, ibv_send_wr& to,
                                     ibv_sge* sges) {
  to.send_flags = request.signaled ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0U;
  to.sg_list = sges;
  switch (request.opcode) {
    case Opcode::kSend:
      to.opcode = IBV_WR_SEND;
      if (request.inlined) to.send_flags |= IBV_SEND_INLINE;
      break;
    case Opcode::kRead:
      to.opcode = IBV_WR_RDMA_READ;
      to.wr.rdma = {.remote_addr = request.remote_address, .rkey = request.rkey};
      break;
    case Opcode::kBind: {
      const auto& region = static_cast<const Region&>(*request.region);
      if (region.domain() != domain_.get()) {
        return absl::InvalidArgumentError("BIND: the region is of another protection domain");
      }
      auto& window = static_cast<Window&>(*request.window);
      to.opcode = IBV_WR_BIND_MW;
      to.num_sge = 0;
      to.imm_data = 0;  // some providers insist
      to.bind_mw = {.mw = window.get(),
                    .rkey = window.next_rkey(),
                    .bind_info = {.mr = region.get(),
                                  .addr = request.bind_address,
                                  .length = request.bind_length,
                                  .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
      return absl::OkStatus();
    }
    case Opcode::kLocalInvalidate:
      to.opcode = IBV_WR_LOCAL_INV;
      to.num_sge = 0;
      to.invalidate_rkey = request.rkey;
      return absl::OkStatus();
    case Opcode::kReceive:
      return absl::InvalidArgumentError("a receive is not posted to the send queue");
  }
  absl::Status lengths = CheckLengths(request);
  if (!lengths.ok()) return lengths;
  // Without the empty ones, which some adapters take for 2 GiB, and soft-iWARP crashes on; but a
  // READ always has a sink.
  to.num_sge = 0;
  for (size_t i = 0; i < request.sge_count; ++i) {
    if (request.sges[i].length != 0) sges[to.num_sge++] = SgeOf(request.sges[i]);
  }
  if (to.num_sge == 0 && request.opcode == Opcode::kRead && request.sge_count != 0) {
    sges[to.num_sge++] = SgeOf(request.sges[0]);
  }
  return absl::OkStatus();
}

// As many as fit a list. `more`: there may be more to post.
absl::Status VerbsQueuePair::PostList(std::span<const rdma::SendRequest> requests, size_t& posted,
                                      bool& more) {
  SendList list;
  absl::Status status;
  size_t count = 0;
  const size_t most = std::min(requests.size(), kRequestsPerDoorbell);
  for (; count < most; ++count) {
    if (!sends_.works.HasRoom()) {
      status = Full("send");
      break;
    }
    const rdma::SendRequest& request = requests[count];
    ibv_send_wr& work = list.works[count];
    status = Prepare(request, work, list.sges[count]);
    if (!status.ok()) break;
    work.wr_id = AdapterWorkId{sends_.place, Side::kSend, sends_.works.posted()}.Pack();
    work.next = nullptr;
    if (count != 0) list.works[count - 1].next = &work;
    sends_.works.Post({request.wr_id, request.opcode, request.signaled});
  }
  more = status.ok();
  if (count == 0) return status;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(pair_, list.works, &bad);
  const size_t taken = error == 0 ? count : static_cast<size_t>(bad - list.works);
  sends_.works.TakeBack(static_cast<uint32_t>(count - taken));
  for (size_t i = 0; i < taken; ++i) {
    if (requests[i].opcode == Opcode::kBind) static_cast<Window&>(*requests[i].window).OnBound();
  }
  posted += taken;
  if (error == 0) return status;
  more = false;
  return SystemError(absl::StrCat("posting a ", Absl(ToString(requests[taken].opcode)),
                                  " to queue pair ", number_),
                     error);
}

absl::Status VerbsQueuePair::PostSend(std::span<const rdma::SendRequest> requests, size_t& posted) {
  posted = 0;
  if (guard_.inherited() || state_ == QueuePairState::kInit) [[unlikely]]
    return CannotPost();
  if (state_ == QueuePairState::kError) [[unlikely]] {
    for (const rdma::SendRequest& request : requests) {
      if (!sends_.works.HasRoom()) return Full("send");
      Withhold(sends_, Side::kSend, {request.wr_id, request.opcode});
      ++posted;
    }
    return absl::OkStatus();
  }
  bool more = true;
  absl::Status status;
  while (more && posted < requests.size()) {
    status = PostList(requests.subspan(posted), posted, more);
  }
  return status;
}

absl::Status VerbsQueuePair::PostReceive(std::span<const rdma::ReceiveRequest> requests,
                                         size_t& posted) {
  posted = 0;
  if (guard_.inherited()) [[unlikely]]
    return Inherited();
  while (posted < requests.size()) {
    const rdma::ReceiveRequest& request = requests[posted];
    if (!receives_.works.HasRoom()) return Full("receive");
    const uint32_t position = receives_.works.posted();
    if (state_ == QueuePairState::kError) [[unlikely]] {
      Withhold(receives_, Side::kReceive, {request.wr_id, Opcode::kReceive});
      ++posted;
      continue;
    }
    ibv_sge sge = SgeOf(request.sge);
    ibv_recv_wr work{.wr_id = AdapterWorkId{receives_.place, Side::kReceive, position}.Pack(),
                     .next = nullptr,
                     .sg_list = &sge,
                     .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(pair_, &work, &bad); error != 0) {
      return SystemError(absl::StrCat("posting a receive to queue pair ", number_), error);
    }
    receives_.works.Post({request.wr_id, Opcode::kReceive});
    ++posted;
  }
  return absl::OkStatus();
}

// ---- completing ----

bool VerbsQueuePair::Complete(const ibv_wc& from, AdapterWorkId id, rdma::Completion& to) {
  WorkRing& works = side_of(id.side).works;
  if (!works.Has(id.position)) return false;
  if (from.status != IBV_WC_SUCCESS) [[unlikely]]
    EnterError();
  if (reorders_ && id.side == Side::kSend) {
    HoldBack(from, id.position);
    return false;
  }
  const WorkRing::Work work = works.Complete(id.position);
  to.wr_id = work.wr_id;
  to.status = StatusOf(from.status);
  to.opcode = work.opcode;
  to.bytes = from.byte_len;
  to.queue_pair = number_;
  to.vendor_error = from.status == IBV_WC_SUCCESS ? 0 : from.vendor_err;
  return true;
}

void VerbsQueuePair::HoldBack(const ibv_wc& from, uint32_t position) {
  WorkRing::Work& work = sends_.works.At(position);
  work.done = true;
  work.status = StatusOf(from.status);
  work.vendor_error = from.status == IBV_WC_SUCCESS ? 0 : from.vendor_err;
  if (static_cast<int32_t>(position - furthest_done_) > 0) furthest_done_ = position;
  ReleaseInOrder();
}

// Silent SENDs are done when a later request is; a READ never is before it says so.
void VerbsQueuePair::ReleaseInOrder() {
  WorkRing& works = sends_.works;
  while (!works.empty()) {
    const uint32_t position = works.completed();
    const WorkRing::Work work = works.At(position);
    const bool silent = !work.signaled && work.opcode != Opcode::kRead &&
                        static_cast<int32_t>(furthest_done_ - position) > 0;
    if (!work.done && !silent) return;
    works.Complete(position);
    if (work.done) sends_.completions->Push(CompletionOf(work), *this);
  }
}

rdma::Completion VerbsQueuePair::CompletionOf(const WorkRing::Work& work) const {
  return {.wr_id = work.wr_id,
          .status = work.status,
          .opcode = work.opcode,
          .queue_pair = number_,
          .vendor_error = work.vendor_error};
}

void VerbsQueuePair::EnterError() {
  last_word_ = Clock::now();
  if (state_ == QueuePairState::kError) return;
  state_ = QueuePairState::kError;
  for (const Side side : {Side::kSend, Side::kReceive}) {
    Queue& queue = side_of(side);
    queue.withheld_from = queue.works.posted();
    if (!queue.works.empty()) queue.completions->AwaitFlush(*this, side);
  }
}

void VerbsQueuePair::Fail() {
  if (guard_.inherited() || std::exchange(failed_, true)) return;
  ibv_qp_attr to_error{};
  to_error.qp_state = IBV_QPS_ERR;
  // Fails when it is there already, or the adapter is gone: nothing to be done about either.
  ibv_modify_qp(pair_, &to_error, IBV_QP_STATE);
  EnterError();
}

void VerbsQueuePair::Withhold(Queue& queue, Side side, WorkRing::Work work) {
  queue.works.Post(work);
  queue.completions->AwaitFlush(*this, side);
}

bool VerbsQueuePair::Flush(Side side, Clock::time_point now, rdma::Completion& to) {
  Queue& queue = side_of(side);
  while (!queue.works.empty()) {
    const uint32_t position = queue.works.completed();
    const bool withheld = static_cast<int32_t>(position - queue.withheld_from) >= 0;
    if (!withheld && now - last_word_ < kFlushGrace) return false;
    WorkRing::Work work = queue.works.Complete(position);
    // It was done long ago, or the adapter would have said that it failed.
    if (!withheld && !work.signaled && !work.done) continue;
    if (!work.done) work.status = CompletionStatus::kFlushed;
    to = CompletionOf(work);
    return true;
  }
  return false;
}

}  // namespace farcall::verbs
