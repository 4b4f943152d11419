#include "farcall/transports/rdma/softnic/runtime_folder.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace farcall::softnic {
namespace {

constexpr size_t kMaxName = 64;
constexpr int kBacklog = 1024;  // of connections that nobody has accepted yet

// 0, or why the folder is not there and cannot be made.
int Make(const std::string& folder) {
  return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

absl::Status CheckFolder(const std::string& folder) {
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) {
    return absl::UnavailableError(
        absl::StrCat("softnic: folder ", folder, ": ", std::strerror(errno)));
  }
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid() || (found.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("softnic: ", folder, " is not a folder of user ", ::geteuid(),
                     " with mode 0700: remove it, or set SoftnicOptions::runtime_folder"));
  }
  return absl::OkStatus();
}

std::string DefaultFolder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return absl::StrCat(runtime, "/farcall");
  std::string run = absl::StrCat("/run/farcall-", ::geteuid());
  // Not for everybody to write in, but an administrator may have made ours.
  if (Make(run) == 0 && CheckFolder(run).ok()) return run;
  return absl::StrCat("/tmp/farcall-", ::geteuid());
}

bool ValidName(std::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kMaxName && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

FileDescriptor OpenSocket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// 0, or an errno.
int ConnectSocket(int socket, const std::string& path) {
  const sockaddr_un address = AddressOf(path);
  return ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0
             ? 0
             : errno;
}

int BindSocket(int socket, const std::string& path) {
  const sockaddr_un address = AddressOf(path);
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0
                                                                                          : errno;
}

}  // namespace

absl::StatusOr<std::string> SocketPath(const std::string& folder, std::string_view name) {
  if (!ValidName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("softnic: '", std::string(name), "' is no name: 1 to ", kMaxName,
                     " letters, digits, '-', '_' and '.', and not '.' at the front"));
  }
  const std::string where = folder.empty() ? DefaultFolder() : folder;
  if (const int error = Make(where); error != 0) {
    return absl::UnavailableError(
        absl::StrCat("softnic: cannot make folder ", where, ": ", std::strerror(error)));
  }
  absl::Status ours = CheckFolder(where);
  if (!ours.ok()) return ours;
  std::string path = absl::StrCat(where, "/", std::string(name), ".softnic");
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("softnic: too long for a socket: ", path));
  }
  return path;
}

absl::Status CheckPeerUser(int socket, pid_t* pid) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return absl::UnavailableError(absl::StrCat("the peer's user: ", std::strerror(errno)));
  }
  if (peer.uid != ::geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the peer runs as user ", peer.uid, ", this process as ", ::geteuid()));
  }
  if (pid != nullptr) *pid = peer.pid;
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> ConnectTo(const std::string& path) {
  FileDescriptor socket = OpenSocket();
  const int error = socket ? ConnectSocket(socket.get(), path) : errno;
  if (error != 0) {
    const char* why =
        error == ENOENT || error == ECONNREFUSED
            ? "nobody listens: is the server running, as this user and with this XDG_RUNTIME_DIR?"
        : error == EAGAIN ? "too many connections wait to be accepted"
                          : std::strerror(error);
    return absl::UnavailableError(absl::StrCat(path, ": ", why));
  }
  absl::Status ours = CheckPeerUser(socket.get(), nullptr);
  if (!ours.ok()) return ours;
  return socket;
}

absl::StatusOr<ListeningSocket> ListeningSocket::Bind(const std::string& path) {
  ListeningSocket made(OpenSocket());
  int error = made.socket_ ? BindSocket(made.get(), path) : errno;
  if (error == EADDRINUSE) {
    const FileDescriptor probe = OpenSocket();
    if (probe && ConnectSocket(probe.get(), path) == ECONNREFUSED) {
      ::unlink(path.c_str());
      error = BindSocket(made.get(), path);
    }
  }
  if (error == EADDRINUSE) {
    return absl::UnavailableError(absl::StrCat(path, ": a live server listens there"));
  }
  struct stat file {};
  if (error == 0 && (::chmod(path.c_str(), 0600) != 0 || ::lstat(path.c_str(), &file) != 0 ||
                     ::listen(made.get(), kBacklog) != 0)) {
    error = errno;
    ::unlink(path.c_str());
  }
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot listen: ", std::strerror(error)));
  }
  made.path_ = path;
  made.device_ = file.st_dev;
  made.inode_ = file.st_ino;
  return made;
}

ListeningSocket::~ListeningSocket() {
  struct stat now {};
  if (!path_.empty() && ::lstat(path_.c_str(), &now) == 0 && now.st_dev == device_ &&
      now.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
}

}  // namespace farcall::softnic
