// Software NICs with a runtime folder of the test's own.

#ifndef FARCALL_TESTS_TRANSPORTS_RDMA_SOFTNIC_TESTING_H_
#define FARCALL_TESTS_TRANSPORTS_RDMA_SOFTNIC_TESTING_H_

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "farcall/transports/rdma/softnic/softnic.h"

namespace farcall::softnic::testing {

// Sanitizers have memory, mappings and system calls of their own: what counts these does not run.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// Removed in the end, with all that is in it.
class Folder {
 public:
  Folder() {
    char path[] = "/tmp/farcall-test-XXXXXX";  // mode 0700, as it must be
    REQUIRE(::mkdtemp(path) != nullptr);
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::shared_ptr<rdma::Device> Make(SoftnicOptions options) {
  absl::StatusOr<std::shared_ptr<rdma::Device>> device = MakeSoftnicDevice(std::move(options));
  INFO(device.status().ToString());
  REQUIRE(device.ok());
  return *std::move(device);
}

}  // namespace farcall::softnic::testing

#endif  // FARCALL_TESTS_TRANSPORTS_RDMA_SOFTNIC_TESTING_H_
