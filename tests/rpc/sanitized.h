// Whether this build has a sanitizer, with an allocator and a pace of its own: kSanitized, and
// FARCALL_TEST_SANITIZED for what does not compile otherwise. FARCALL_TEST_NEEDS_DESCRIPTORS: UBSan
// looks at an object's type through a pipe, and ends the process when it gets none.

#ifndef FARCALL_TESTS_RPC_SANITIZED_H_
#define FARCALL_TESTS_RPC_SANITIZED_H_

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FARCALL_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FARCALL_TEST_SANITIZED 1
#endif
#endif

#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
#define FARCALL_TEST_NEEDS_DESCRIPTORS 1
#endif
#endif

namespace farcall::testing {

#ifdef FARCALL_TEST_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace farcall::testing

#endif  // FARCALL_TESTS_RPC_SANITIZED_H_
