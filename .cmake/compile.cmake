# How our own code is compiled: warnings, sanitizers, ccache. System headers (Boost, FlatBuffers,
# Abseil, Catch2) come through imported targets, whose includes CMake marks SYSTEM.

# Warnings as errors for one of our targets. Not for generated code of other tools.
function(farcall_warnings target)
  target_compile_options(${target} PRIVATE
      -Wall -Wextra -Wpedantic -Werror
      -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wold-style-cast
      -Wconversion          # a length that is cut or widened silently is how hostile numbers get in
      -Wno-sign-conversion  # clang's -Wconversion implies it, g++'s does not: ask both for the same
      -Wextra-semi -Wimplicit-fallthrough)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 is wrong about inlined standard and Asio code under optimisation.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-restrict)
  else()
    target_compile_options(${target} PRIVATE -Wthread-safety)  # see rpc/mutex.h
  endif()
endfunction()

# What calls run through: at -O3 a small call takes a tenth less than at the -O2 of the release
# preset, with which the tests compile sooner; with a section a function, 64 outstanding ones take
# a twenty-fifth less, and who links the library may leave out what is not called (--gc-sections).
function(farcall_optimized target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O3 -ffunction-sections>)
endfunction()

if(FARCALL_SANITIZE STREQUAL "asan")
  set(farcall_sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(FARCALL_SANITIZE STREQUAL "tsan")
  set(farcall_sanitize_flags -fsanitize=thread)
elseif(NOT FARCALL_SANITIZE STREQUAL "")
  message(FATAL_ERROR "FARCALL_SANITIZE is '${FARCALL_SANITIZE}': leave it empty, or asan, or tsan")
endif()
if(FARCALL_SANITIZE)
  # Global and not per target: every object of a program must agree on its sanitizer.
  add_compile_options(${farcall_sanitize_flags} -fno-omit-frame-pointer)
  add_link_options(${farcall_sanitize_flags})
endif()
if(FARCALL_SANITIZE STREQUAL "tsan")
  # Fences are invisible to ThreadSanitizer; Asio then orders with its mutexes, which are visible.
  add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()

# libFuzzer comes with clang. What it shall find its way through counts the branches taken; programs
# without a fuzzer pay for the counting and for nothing else.
if(FARCALL_SANITIZE STREQUAL "asan" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(FARCALL_LIBFUZZER ON)
else()
  set(FARCALL_LIBFUZZER OFF)
endif()

# Makes one of our libraries guide the fuzzers of tests/fuzz.
function(farcall_fuzzed target)
  if(FARCALL_LIBFUZZER)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)  # clang-tidy and editors read it
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(FARCALL_CCACHE ccache)
    mark_as_advanced(FARCALL_CCACHE)
    if(FARCALL_CCACHE)
      set(CMAKE_CXX_COMPILER_LAUNCHER ${FARCALL_CCACHE})
    endif()
  endif()
endif()
