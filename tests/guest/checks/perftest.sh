#!/bin/sh
# perftest.sh <program> args...: one of perftest's programs, server and client, by rdma_cm. The
# server runs on the core of FARCALL_SERVER_CORE, if that is set.

set -eu
program=$1
shift
${FARCALL_SERVER_CORE:+taskset -c "$FARCALL_SERVER_CORE"} \
  "$program" -R -F -d "$FARCALL_GUEST_DEVICE" "$@" >/tmp/server.log 2>&1 &
server=$!
await_listener.sh
"$program" -R -F -d "$FARCALL_GUEST_DEVICE" "$@" "$FARCALL_GUEST_PEER_ADDRESS" ||
  { kill "$server"; cat /tmp/server.log; exit 1; }
wait "$server"
