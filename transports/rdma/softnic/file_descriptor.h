// An owned file descriptor.

#ifndef FARCALL_TRANSPORTS_RDMA_SOFTNIC_FILE_DESCRIPTOR_H_
#define FARCALL_TRANSPORTS_RDMA_SOFTNIC_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace farcall::softnic {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace farcall::softnic

#endif  // FARCALL_TRANSPORTS_RDMA_SOFTNIC_FILE_DESCRIPTOR_H_
