#include "farcall/transports/tcp/errors.h"

#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "farcall/rpc/bytes.h"
#include "farcall/transports/tcp/socket_setup.h"

namespace farcall::tcp {
namespace {

std::string_view Meaning(int error) {
  switch (error) {
    case ECONNRESET:
      return "the peer's process ended or threw the connection away";
    case EPIPE:
      return "the peer closed the connection";
    case ETIMEDOUT:
      return "the peer's host did not answer: it is down, or the network between drops packets";
    case EMFILE:
      return "this process has no file descriptor left: raise its limit, ulimit -n";
    case ENFILE:
      return "this machine has no file descriptor left: raise fs.file-max";
    case ENOBUFS:
    case ENOMEM:
      return "the kernel has no memory left for sockets";
    case EADDRINUSE:
      return "another process listens there";
    case EADDRNOTAVAIL:
      return "it is not an address of this machine, or all its ports are in use";
    case EACCES:
      return "this user may not: ports below 1024 and foreign directories need privileges";
    default:
      return {};
  }
}

}  // namespace

std::string ErrorText(int error) {
  const std::string cause = std::generic_category().message(error);
  const std::string_view meaning = Meaning(error);
  return meaning.empty() ? cause : absl::StrCat(cause, " (", Absl(meaning), ")");
}

absl::Status SystemError(std::string_view address, std::string_view operation, int error) {
  return absl::UnavailableError(
      absl::StrCat(Absl(address), ": ", Absl(operation), ": ", ErrorText(error)));
}

absl::Status NameError(std::string_view address, std::string_view operation, std::string_view host,
                       std::string_view why) {
  if (const Descriptor probe = OpenSocket(AF_UNIX); !probe) {
    return SystemError(address, operation, errno);
  }
  return absl::UnavailableError(absl::StrCat(Absl(address), ": ", Absl(operation), ": the name ",
                                             Absl(host), " does not resolve: ", Absl(why)));
}

}  // namespace farcall::tcp
