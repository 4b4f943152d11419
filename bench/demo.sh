#!/bin/sh
# The latency demo: a server process, a client process, a table of what a call costs, each row
# beside the floor of this machine; and the same as a page with charts, build/demo/report.html, with
# report.json and report.csv beside it.
#
#   sh bench/demo.sh [--quick] [--load] [--no-peers] [--json FILE] [--csv FILE] [--html FILE]
#                    [--rounds N]
#   sh bench/demo.sh --server [ADDRESS]     on one host, with --connect HOST on another: the same
#   sh bench/demo.sh --connect HOST [...]   over rdma:// and tcp:// between the two
#
# Works from any directory on a fresh Debian 12 (root or sudo): installs what is missing, builds the
# release preset of what the demo needs, and hands all arguments to the demo. Unless --no-peers is
# given, that includes the libraries of others (bench/peers); those that cannot be had are left out.

set -eu

case ${1:-} in
  -h|--help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
if [ "${1:-}" = --server ]; then
  shift
  sh "$root/.ci/build.sh" release farcall_demo_server
  exec "$root/build/release/bin/farcall_demo_server" "$@"
fi
targets="farcall_demo farcall_peers"
for argument in "$@"; do
  case $argument in --no-peers|--connect) targets=farcall_demo ;; esac
done
if [ "$targets" != farcall_demo ]; then
  sh "$root/.ci/setup.sh" "$root/bench/peers/packages" ||
    echo "demo: some peers cannot be installed, for the reasons above; --no-peers goes without" >&2
fi
sh "$root/.ci/build.sh" release $targets
out=$root/build/demo
mkdir -p "$out"
code=0
"$root/build/release/bin/farcall_demo" --json "$out/report.json" --csv "$out/report.csv" \
  --html "$out/report.html" "$@" || code=$?
[ "$code" -ne 0 ] || [ ! -s "$out/report.html" ] || echo "charts: $out/report.html" >&2
exit "$code"
