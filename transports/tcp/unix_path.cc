#include "farcall/transports/tcp/unix_path.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "farcall/transports/tcp/address.h"
#include "farcall/transports/tcp/errors.h"
#include "farcall/transports/tcp/socket_setup.h"

namespace farcall::tcp {
namespace {

int BindTo(int socket, const SocketAddress& address) {
  return ::bind(socket, address.data(), static_cast<socklen_t>(address.size())) == 0 ? 0 : errno;
}

// Removes a socket file whose server is dead. Two servers that start at the same moment may still
// take the file from each other between our look and the removal.
absl::Status RemoveStale(const Endpoint& endpoint, const SocketAddress& address) {
  const std::string name = endpoint.ToString();
  struct stat before {};
  if (::lstat(endpoint.path.c_str(), &before) != 0) return absl::OkStatus();  // gone meanwhile
  if (!S_ISSOCK(before.st_mode)) {
    return absl::UnavailableError(
        absl::StrCat(name, ": cannot listen: the file exists and is not a socket"));
  }
  const Descriptor probe = OpenSocket(AF_UNIX);
  if (!probe) return SystemError(name, "looking whether a server is alive", errno);
  const int result = ::connect(probe.get(), address.data(), static_cast<socklen_t>(address.size()));
  if (result == 0 || errno != ECONNREFUSED) {
    return absl::UnavailableError(
        absl::StrCat(name, ": cannot listen: a live server has this socket"));
  }
  struct stat after {};
  if (::lstat(endpoint.path.c_str(), &after) == 0 && after.st_ino == before.st_ino &&
      after.st_dev == before.st_dev) {
    ::unlink(endpoint.path.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status UnixPath::Bind(int socket, const Endpoint& endpoint, unsigned mode) {
  const SocketAddress address = UnixAddress(endpoint);
  int error = BindTo(socket, address);
  if (error == EADDRINUSE) {
    absl::Status stale = RemoveStale(endpoint, address);
    if (!stale.ok()) return stale;
    error = BindTo(socket, address);
  }
  if (error == ENOENT) {
    const std::string folder = endpoint.path.substr(0, endpoint.path.rfind('/') + 1);
    return absl::UnavailableError(
        absl::StrCat(endpoint.ToString(), ": cannot listen: there is no folder ", folder));
  }
  if (error != 0) return SystemError(endpoint.ToString(), "cannot listen", error);
  struct stat made {};
  // Before listen(): until then nobody can connect, whatever the file's mode.
  if (::chmod(endpoint.path.c_str(), mode) != 0 || ::lstat(endpoint.path.c_str(), &made) != 0) {
    const int failed = errno;
    ::unlink(endpoint.path.c_str());
    return SystemError(endpoint.ToString(), "cannot set the mode of the socket's file", failed);
  }
  path_ = endpoint.path;
  device_ = made.st_dev;
  inode_ = made.st_ino;
  return absl::OkStatus();
}

void UnixPath::Remove() {
  if (path_.empty()) return;
  struct stat now {};
  if (::lstat(path_.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
  path_.clear();
}

}  // namespace farcall::tcp
