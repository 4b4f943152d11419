#!/bin/sh
# Builds the tree and runs its tests; ends with ctest's summary and its exit status.
#
#   sh tests/run.sh [--preset release|debug|asan|tsan] [--no-guest] [-- ctest arguments...]
#
# Works from any directory on a fresh Debian 12 (root or sudo): it installs what is missing first.
#   sh tests/run.sh                             everything, release
#   sh tests/run.sh -- -R rpc.buffer            the tests whose name matches
#   sh tests/run.sh --preset tsan -- -L simulation  the tests with a label, under ThreadSanitizer
#   sh tests/run.sh --no-guest                  no test that boots a guest (see tests/guest)

set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }
fail() { echo "tests/run.sh: $*" >&2; exit 2; }

preset=release
guest=""
while [ $# -gt 0 ]; do
  case $1 in
    --preset) [ $# -ge 2 ] || fail "--preset needs a name: release, debug, asan or tsan"
              preset=$2; shift 2 ;;
    --preset=*) preset=${1#--preset=}; shift ;;
    --no-guest) guest="--label-exclude guest"; shift ;;
    -h|--help) usage; exit 0 ;;
    --) shift; break ;;
    *) fail "unknown argument '$1'; ctest's own arguments go after --" ;;
  esac
done
case $preset in
  release|debug|asan|tsan) ;;
  *) fail "unknown preset '$preset'; there are release, debug, asan and tsan" ;;
esac

sh "$root/.ci/build.sh" "$preset"

# g++ 12's ThreadSanitizer cannot map its shadow when the kernel randomises more than 28 bits of
# an address: switch that off for the tests.
launcher=""
random_bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)
if [ "$preset" = tsan ] && [ "$random_bits" -gt 28 ]; then
  launcher="setarch -R"
fi
cd "$root"
exec $launcher ctest --preset "$preset" --parallel "$(nproc)" $guest "$@"
