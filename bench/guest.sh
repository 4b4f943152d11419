#!/bin/sh
# The demo over real verbs: boots the guest of tests/guest once with Soft-RoCE and once with
# soft-iWARP, and runs it over rdma:// in each, with TCP and perftest beside it, round by round.
# These adapters are software in the kernel of an emulated machine: only ratios count.
#
#   sh bench/guest.sh [--quick] [--device rxe|siw|both] [--rounds N] [--json FILE] [--html FILE]
#                     [--csv FILE]
#
# About six minutes a device on two cores, with --quick two. Works from any directory on a fresh
# Debian 12; root or sudo is wanted only to install packages. Every record, and a page with charts,
# are in build/guest-demo/ unless other names are given.

set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
fail() { echo "bench/guest.sh: $*" >&2; exit 2; }

out=$root/build/guest-demo
json=$out/report.json
csv=$out/report.csv
html=$out/report.html
devices="rxe siw"
quick=""
rounds=""
limit=1200
while [ $# -gt 0 ]; do
  case $1 in
    --device|--rounds|--json|--csv|--html) [ $# -ge 2 ] || fail "$1 needs a value" ;;
  esac
  case $1 in
    --quick) quick=--quick; limit=600; shift ;;
    --device) devices=$2; shift 2 ;;
    --rounds) rounds="--rounds $2"; shift 2 ;;
    --json) json=$2; shift 2 ;;
    --csv) csv=$2; shift 2 ;;
    --html) html=$2; shift 2 ;;
    -h|--help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "unknown argument '$1'" ;;
  esac
done
case $devices in
  rxe|siw|"rxe siw") ;;
  both) devices="rxe siw" ;;
  *) fail "unknown device '$devices'; there are rxe, siw and both" ;;
esac

sh "$root/.ci/build.sh" release farcall_demo
mkdir -p "$out"
FARCALL_HOST_LOAD=$(cut -d ' ' -f 1 /proc/loadavg)
FARCALL_GUEST_CLOCK=tsc=reliable
export FARCALL_HOST_LOAD FARCALL_GUEST_CLOCK
# Rounds of two boots have numbers of their own: a ratio is of one round.
first=1
set --
code=0
for device in $devices; do
  rm -f "$out/$device.json"
  sh "$root/tests/guest/run.sh" --device "$device" --limit "$limit" --results "$out" -- \
    sh "$root/bench/in_guest.sh" "$root" "$first" $quick $rounds || code=1
  [ ! -s "$out/$device.json" ] || set -- "$@" --read "$out/$device.json"
  first=$((first + 100))
done
[ $# -gt 0 ] || exit 1
"$root/build/release/bin/farcall_demo" "$@" --json "$json" --csv "$csv" --html "$html" || code=1
echo "charts: $html" >&2
exit "$code"
