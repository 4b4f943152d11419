// Preloaded into a process, or linked: counts its heap allocations in a file that others can read
// meanwhile.
//
// LD_PRELOAD=…/libfarcall_malloc_count.so FARCALL_MALLOC_COUNT=FILE program
// FILE holds one uint64_t in native byte order; when it ends with a slash, the file in there that
// is named after the process. It counts every call that takes memory; operator new takes it from
// malloc. A sanitizer has an allocator of its own, which nothing may stand before: it tells.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<std::atomic<uint64_t>*> counter{nullptr};

void Count() {
  std::atomic<uint64_t>* const mapped = counter.load(std::memory_order_relaxed);
  if (mapped != nullptr) mapped->fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// Once at the start; and whenever the variable has changed. What was mapped stays mapped: another
// thread may be counting.
extern "C" __attribute__((constructor)) void FarcallCountMalloc() {
  const char* const where = std::getenv("FARCALL_MALLOC_COUNT");
  if (where == nullptr) return counter.store(nullptr);
  char path[4096];
  const bool folder = where[0] != '\0' && where[std::strlen(where) - 1] == '/';
  const int length = folder ? std::snprintf(path, sizeof path, "%s%d", where, ::getpid())
                            : std::snprintf(path, sizeof path, "%s", where);
  if (length < 0 || static_cast<size_t>(length) >= sizeof path) ::_exit(119);
  const int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(uint64_t)) != 0) ::_exit(120);
  void* mapped = ::mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (mapped == MAP_FAILED) ::_exit(121);
  counter.store(static_cast<std::atomic<uint64_t>*>(mapped));
}

#ifdef FARCALL_SANITIZED

// Of the sanitizer's runtime (sanitizer/allocator_interface.h, which not every toolchain installs).
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*,
                                                                             size_t),
                                                         void (*free_hook)(const volatile void*));

namespace {

const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t) { Count(); }, [](const volatile void*) {});

}  // namespace

#else

// glibc's own allocator, under the names that remain when malloc is replaced.
extern "C" {
void* __libc_malloc(size_t bytes);  // NOLINT(*-identifier-naming,*-reserved-identifier)
void* __libc_calloc(size_t count,
                    size_t bytes);  // NOLINT(*-identifier-naming,*-reserved-identifier)
void* __libc_realloc(void* block,
                     size_t bytes);  // NOLINT(*-identifier-naming,*-reserved-identifier)
void* __libc_memalign(size_t alignment,
                      size_t n);  // NOLINT(*-identifier-naming,*-reserved-identifier)
}

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

#endif
