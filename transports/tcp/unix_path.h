// The file of a Unix socket that listens: made, replaced when a dead server left it, removed.

#ifndef FARCALL_TRANSPORTS_TCP_UNIX_PATH_H_
#define FARCALL_TRANSPORTS_TCP_UNIX_PATH_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "farcall/rpc/endpoint.h"

namespace farcall::tcp {

class UnixPath {
 public:
  UnixPath() = default;
  // Removes the file, if it is still ours.
  ~UnixPath() { Remove(); }
  UnixPath(const UnixPath&) = delete;
  UnixPath& operator=(const UnixPath&) = delete;

  // Binds `socket` to the endpoint's path, with access `mode`. A socket file that nobody listens on
  // is replaced. UNAVAILABLE: a live server has it, something else is there, or the system's
  // reason.
  absl::Status Bind(int socket, const Endpoint& endpoint, unsigned mode);
  void Remove();

 private:
  std::string path_;  // empty: no file of ours
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace farcall::tcp

#endif  // FARCALL_TRANSPORTS_TCP_UNIX_PATH_H_
