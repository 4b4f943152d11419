#include "farcall/bench/measure/heap_count.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "farcall/bench/measure/child_process.h"

// Of malloc_count.cc, which stands for malloc in this program.
extern "C" void FarcallCountMalloc();

namespace farcall::bench {
namespace {

constexpr char kWhere[] = "FARCALL_MALLOC_COUNT";
constexpr char kPreload[] = "LD_PRELOAD";

}  // namespace

CountHeaps::CountHeaps() {
  char folder[] = "/tmp/farcall-heaps-XXXXXX";
  if (mkdtemp(folder) == nullptr) return;
  folder_ = std::string(folder) + "/";
  setenv(kWhere, folder_.c_str(), 1);
  const std::string library = FolderOfThisProgram() + "/libfarcall_malloc_count.so";
  if (access(library.c_str(), R_OK) == 0) setenv(kPreload, library.c_str(), 1);
  FarcallCountMalloc();
}

CountHeaps::~CountHeaps() {
  if (folder_.empty()) return;
  unsetenv(kPreload);
  unsetenv(kWhere);
  FarcallCountMalloc();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

int OpenHeapCountOf(pid_t process) {
  const char* const folder = std::getenv(kWhere);
  if (folder == nullptr) return -1;
  return open((std::string(folder) + std::to_string(process)).c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace farcall::bench
