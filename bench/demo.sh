#!/bin/sh
# The latency demo: a server process, a client process, a table of what a call costs, each row
# beside the floor of this machine.
#
#   sh bench/demo.sh [--quick] [--json FILE]
#
# Works from any directory on a fresh Debian 12 (root or sudo): installs what is missing, builds the
# release preset of what the demo needs, and hands all arguments to the demo.

set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
sh "$root/.ci/build.sh" release farcall_demo
exec "$root/build/release/bin/farcall_demo" "$@"
