#!/bin/sh
# Installs what is missing, configures a preset and builds it, with progress.
#
#   sh .ci/build.sh <preset> [target...]
#
# Called by tests/run.sh and bench/demo.sh, so that both build in the same way, into build/<preset>.
# FARCALL_JOBS sets how many compilers run at once (default: one a core, fewer if memory is short).

set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
say() { echo "build: $*" >&2; }
fail() { say "$*"; exit 1; }

# One compiler a core, but at most one for each 1.5 GB of available memory: an Asio translation unit
# under a sanitizer takes about 1 GB, and a machine that swaps builds slower than one that waits.
jobs() {
  cores=$(nproc)
  fits=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
  fits=$((${fits:-1500000} / 1500000))
  [ "$fits" -ge 1 ] || fits=1
  [ "$fits" -lt "$cores" ] && echo "$fits" || echo "$cores"
}

[ $# -ge 1 ] || fail "usage: sh .ci/build.sh <preset> [target...]"
preset=$1
shift
build=$root/build/$preset
log=$build/configure.log

sh "$root/.ci/setup.sh"

if [ -f "$build/CMakeCache.txt" ] &&
   ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
  fail "$build was configured for another copy of the tree; remove it and run again"
fi
say "configure $preset"
mkdir -p "$build"
# Whoever installed from this folder may have built neither tests nor bench.
if ! (cd "$root" &&
      cmake --preset "$preset" -DFARCALL_BUILD_TESTS=ON -DFARCALL_BUILD_BENCH=ON) >"$log" 2>&1; then
  cat "$log" >&2
  fail "cmake could not configure preset $preset; its reasons are above and in $log"
fi

say "compile $preset"
[ $# -gt 0 ] || set -- all
cmake --build "$build" --parallel "${FARCALL_JOBS:-$(jobs)}" --target "$@" ||
  fail "the $preset build failed; the first error is above"
