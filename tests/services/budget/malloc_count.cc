// Preloaded into a process: counts its heap allocations in a file that others can read meanwhile.
//
// LD_PRELOAD=…/libfarcall_malloc_count.so FARCALL_MALLOC_COUNT=FILE program
// FILE holds one uint64_t in native byte order. It counts every call that takes memory; operator
// new takes it from malloc.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

// glibc's own allocator, under the names that remain when malloc is replaced.
extern "C" {
void* __libc_malloc(size_t bytes);                  // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(size_t count, size_t bytes);    // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* block, size_t bytes);    // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(size_t alignment, size_t n);  // NOLINT(bugprone-reserved-identifier)
}

namespace {

std::atomic<uint64_t> uncounted{0};
std::atomic<std::atomic<uint64_t>*> counter{&uncounted};

void Count() { counter.load(std::memory_order_relaxed)->fetch_add(1, std::memory_order_relaxed); }

__attribute__((constructor)) void MapCounter() {
  const char* path = std::getenv("FARCALL_MALLOC_COUNT");
  if (path == nullptr) return;
  const int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(uint64_t)) != 0) ::_exit(120);
  void* mapped = ::mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (mapped == MAP_FAILED) ::_exit(121);
  counter.store(static_cast<std::atomic<uint64_t>*>(mapped));
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) {
  Count();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  Count();
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, size_t bytes) {
  Count();
  return __libc_realloc(block, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  Count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  Count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** block, size_t alignment, size_t bytes) {
  Count();
  *block = __libc_memalign(alignment, bytes);
  return *block != nullptr ? 0 : ENOMEM;
}

}  // extern "C"
