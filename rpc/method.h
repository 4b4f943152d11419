// What the generated code tells the library about services and methods. Constant data only.

#ifndef FARCALL_RPC_METHOD_H_
#define FARCALL_RPC_METHOD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace farcall {

enum class Streaming : uint8_t { kNone, kClient, kServer, kBidi };

struct MethodInfo {
  uint64_t id = 0;        // MethodId(name)
  std::string_view name;  // "namespace.Service/Method", as declared in the schema
  Streaming streaming = Streaming::kNone;
  // May run more than once: when the connection is lost before the answer, the channel makes the
  // call again, twice at most (within its deadline; requests of up to 64 KiB, no attachment).
  bool idempotent = false;
};

struct ServiceInfo {
  std::string_view name;                  // "namespace.Service"
  std::span<const MethodInfo> methods;    // in the order of the schema
  std::span<const unsigned char> schema;  // the binary schema (reflection.fbs) that declares it
};

// The id that stands for a method on the wire: 64-bit FNV-1a over the bytes of
// "namespace.Service/Method" (http://www.isthe.com/chongo/tech/comp/fnv: offset basis
// 14695981039346656037, prime 1099511628211). The generator and the server refuse two methods with
// one id; 0 is never a method.
constexpr uint64_t MethodId(std::string_view name) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return hash;
}

}  // namespace farcall

#endif  // FARCALL_RPC_METHOD_H_
