#include "farcall/transports/rdma/verbs/errors.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"

namespace farcall::verbs {
namespace {

// Why a connection manager refuses on InfiniBand and RoCE (InfiniBand's table of REJ reasons).
constexpr int kRejectTimeout = 4;
constexpr int kRejectStaleConnection = 10;
constexpr int kRejectNobodyListens = 8;
constexpr int kRejectByConsumer = 28;

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
      return absl::StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
      return absl::StatusCode::kPermissionDenied;
    case EINVAL:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

std::string_view RemedyFor(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE:
      return ": raise the limit of open files (ulimit -n)";
    case EACCES:
    case EPERM:
      return ": this user may not use the RDMA devices below /dev/infiniband; their udev rules and "
             "the process's capabilities say who may";
    case ENODEV:
      return ": the interface that leads there has no RDMA adapter ('rdma link' lists those that "
             "have)";
    case ECONNREFUSED:
      return ": nobody listens there";
    case EADDRINUSE:
      return ": somebody listens there already";
    case EADDRNOTAVAIL:
      return ": no interface of this machine has that address";
    case ENETUNREACH:
    case EHOSTUNREACH:
      return ": there is no way there; look at 'ip route'";
    case ETIMEDOUT:
      return ": nobody answers; is the host up, and the link?";
    default:
      return "";
  }
}

std::string Words(int error) { return absl::StrCat(std::strerror(error), Absl(RemedyFor(error))); }

std::string RejectReason(int reason) {
  switch (reason) {
    case kRejectNobodyListens:
      return "nobody listens there";
    case kRejectTimeout:
      return "the peer gave up waiting for this side's answer";
    case kRejectStaleConnection:
      return "the peer's adapter still knows an older connection of this queue pair; try again";
    case kRejectByConsumer:
      return "the peer refused";
    default:
      return absl::StrCat("the peer's connection manager refused, reason ", reason,
                          " of InfiniBand's table");
  }
}

bool IsIwarp(const rdma_cm_event& event) {
  return event.id->verbs != nullptr &&
         event.id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

}  // namespace

absl::Status SystemError(std::string_view what, int error) {
  return absl::Status(CodeOf(error), absl::StrCat(Absl(what), ": ", Words(error)));
}

absl::Status RegistrationError(std::string_view adapter, size_t bytes, int error) {
  std::string text = absl::StrCat(Absl(adapter), ": cannot register ", bytes,
                                  " bytes of memory: ", std::strerror(error));
  rlimit limit{};
  if (error == ENOMEM && ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY) {
    absl::StrAppend(&text, "; this process may lock ", limit.rlim_cur,
                    " bytes (RLIMIT_MEMLOCK): raise it with 'ulimit -l unlimited', LimitMEMLOCK= "
                    "of the systemd unit, or memlock in /etc/security/limits.conf");
  } else if (error == ENOMEM) {
    absl::StrAppend(&text, "; the adapter has no key left, or the machine no memory");
  }
  return absl::Status(error == ENOMEM ? absl::StatusCode::kResourceExhausted : CodeOf(error), text);
}

std::string ReasonOf(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      return absl::StrCat("the address does not resolve: ", Words(-event.status));
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return absl::StrCat("there is no route for RDMA: ", Words(-event.status));
    case RDMA_CM_EVENT_REJECTED:
      // A positive status is InfiniBand's, a negative one an errno of iWARP's TCP connection.
      return event.status > 0 ? RejectReason(event.status)
                              : absl::StrCat("refused: ", Words(-event.status));
    case RDMA_CM_EVENT_UNREACHABLE:
      return absl::StrCat("no answer: ", Words(event.status < 0 ? -event.status : ETIMEDOUT));
    default:
      return absl::StrCat("connecting failed: ",
                          event.status < 0 ? Words(-event.status) : rdma_event_str(event.event));
  }
}

bool RefusedByPeer(const rdma_cm_event& event) {
  if (event.event != RDMA_CM_EVENT_REJECTED) return false;
  // iWARP says the same of a port that is closed: only an application has something to say.
  if (IsIwarp(event)) return event.param.conn.private_data_len > 0;
  return event.status == kRejectByConsumer;
}

}  // namespace farcall::verbs
