#!/bin/sh
# Fuzzes at length: builds the targets with the asan preset and runs them one after the other.
#
#   sh tests/fuzz/run.sh [--seconds N] [target...]
#
# N is for each target, 1800 unless given; without names all targets run. What is found is in
# build/asan/fuzz/<target>/. The exit status is not 0 when a target found something.

set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
found=$root/build/asan/fuzz
fail() { echo "tests/fuzz/run.sh: $*" >&2; exit 2; }

seconds=1800
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) [ $# -ge 2 ] || fail "--seconds needs a number"
               seconds=$2; shift 2 ;;
    -h|--help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) fail "unknown argument '$1'" ;;
    *) break ;;
  esac
done
case $seconds in
  ''|*[!0-9]*) fail "'$seconds' is not a number of seconds" ;;
esac
all=$(sed -n 's/^fuzz_target(\([a-z_]*\).*/\1/p' "$root/tests/fuzz/CMakeLists.txt")
[ $# -gt 0 ] || set -- $all
for target in "$@"; do
  echo "$all" | grep -qxF "$target" || fail "no target '$target'; there are" $all
done

sh "$root/.ci/build.sh" asan $(printf 'fuzz.%s ' "$@")
bad=""
for target in "$@"; do
  echo "=== fuzz.$target for $seconds s"
  saved=$root/tests/fuzz/saved/$target
  [ -d "$saved" ] || saved=""
  dictionary=""
  [ ! -f "$root/tests/fuzz/$target.dict" ] || dictionary=-dict=$root/tests/fuzz/$target.dict
  "$root/build/asan/bin/tests/fuzz.$target" -max_total_time="$seconds" -timeout=60 \
    -rss_limit_mb=2048 -artifact_prefix="$found/$target/" -print_final_stats=1 $dictionary \
    "$found/$target/corpus" $saved || bad="$bad $target"
done
[ -z "$bad" ] || { echo "found something:$bad; the inputs are in $found/<target>/" >&2; exit 1; }
