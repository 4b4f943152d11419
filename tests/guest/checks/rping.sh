#!/bin/sh
# A client and a server by rdma_cm: connect, SEND, RDMA READ and WRITE, disconnect.

set -eu
rping -s -C 100 -a "$FARCALL_GUEST_ADDRESS" &
server=$!
await_listener.sh
rping -c -C 100 -a "$FARCALL_GUEST_PEER_ADDRESS" -v | tail -n 3
wait "$server"
