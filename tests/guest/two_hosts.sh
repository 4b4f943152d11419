#!/bin/sh
# Two guests, a and b, with a cable between them: for a host that dies, a cable that is cut and
# packets that are lost. Runs the scenarios of tests/guest/two_hosts, on each device.
#
#   sh tests/guest/two_hosts.sh [--device rxe|siw|both] [--build DIR] [scenario...]
#
# A scenario is a piece of shell: see README.md and scenario.sh. Both guests share two cores and a
# slow cable: good for what happens, not for how fast.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
build=$source/build/release
. "$here/boot.sh"

devices="rxe siw"
while [ $# -gt 0 ]; do
  case $1 in
    --device|--build) [ $# -ge 2 ] || fail "$1 needs a value" ;;
  esac
  case $1 in
    --device) devices=$2; shift 2 ;;
    --build) build=$(cd "$2" && pwd) || fail "no folder $2"; shift 2 ;;
    -h|--help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) fail "unknown argument '$1'" ;;
    *) break ;;
  esac
done
case $devices in
  rxe|siw|"rxe siw") ;;
  both) devices="rxe siw" ;;
  *) fail "unknown device '$devices'; there are rxe, siw and both" ;;
esac
[ $# -gt 0 ] || set -- $(ls "$here/two_hosts" | sed -n 's/\.sh$//p')
for scenario in "$@"; do
  [ -e "$here/two_hosts/$scenario.sh" ] || fail "no scenario '$scenario' in tests/guest/two_hosts"
done

prepare_guest
bad=0
for device in $devices; do
  for scenario in "$@"; do
    started=$(date +%s)
    make_folder "two_hosts-$device-$scenario"
    verdict=passed
    setpriv --pdeathsig TERM sh "$here/scenario.sh" "$scenario" "$device" "$build" "$folder" \
      "$kernel" </dev/null || { verdict="failed; logs are in $folder"; bad=1; }
    echo "$device: $scenario: $verdict ($(($(date +%s) - started)) s)"
  done
done
exit "$bad"
