#!/bin/sh
# The latency demo: a server process, a client process, a table of what a call costs, each row
# beside the floor of this machine.
#
#   sh bench/demo.sh [--quick] [--load] [--no-peers] [--json FILE]
#
# Works from any directory on a fresh Debian 12 (root or sudo): installs what is missing, builds the
# release preset of what the demo needs, and hands all arguments to the demo. Unless --no-peers is
# given, that includes the libraries of others (bench/peers); those that cannot be had are left out.

set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
targets="farcall_demo farcall_peers"
for argument in "$@"; do
  [ "$argument" != --no-peers ] || targets=farcall_demo
done
if [ "$targets" != farcall_demo ]; then
  sh "$root/.ci/setup.sh" "$root/bench/peers/packages" ||
    echo "demo: some peers cannot be installed, for the reasons above; --no-peers goes without" >&2
fi
sh "$root/.ci/build.sh" release $targets
exec "$root/build/release/bin/farcall_demo" "$@"
