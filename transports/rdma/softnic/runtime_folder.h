// Where listeners of one user are found: a folder that nobody else can enter, and sockets in it.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_RUNTIME_FOLDER_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_RUNTIME_FOLDER_H_

#include <sys/types.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farcall/transports/rdma/softnic/file_descriptor.h"

namespace farcall::softnic {

// The socket of listener `name`, in `folder`, or in the folder of this user when that is empty
// (SoftnicOptions::runtime_folder). The folder is made when it is missing. INVALID_ARGUMENT: no
// such name can be; PERMISSION_DENIED: somebody else's folder, or one that others can enter.
absl::StatusOr<std::string> SocketPath(const std::string& folder, std::string_view name);

// OK when the process at the other end runs as this user.
absl::Status CheckPeerUser(int socket, pid_t* pid);

// A connected socket. UNAVAILABLE: nobody listens; PERMISSION_DENIED: somebody else does.
absl::StatusOr<FileDescriptor> ConnectTo(const std::string& path);

// A listening socket, whose file is removed in the end. A file that a dead process left is
// replaced. UNAVAILABLE: a live one has it.
class ListeningSocket {
 public:
  static absl::StatusOr<ListeningSocket> Bind(const std::string& path);
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&&) = default;

  int get() const { return socket_.get(); }

 private:
  explicit ListeningSocket(FileDescriptor socket) : socket_(std::move(socket)) {}

  FileDescriptor socket_;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_RUNTIME_FOLDER_H_
