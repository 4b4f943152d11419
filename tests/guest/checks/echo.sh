#!/bin/sh
# The echo service over rdma://: Dial and Listen, a server and clients in processes of their own.
#
#   echo.sh <calls>

set -eu

calls=$1
server=rdma://$FARCALL_GUEST_ADDRESS:7000
farcall_echo_server "$server" --quiet >server.log 2>&1 &
pid=$!
farcall_echo_client "$server" 'over an adapter' --calls "$calls" --timeout 60
farcall_echo_client "$server" 'and again' --calls 10 --timeout 60

# Where nobody listens it says so, and does not hang.
! farcall_echo_client "rdma://$FARCALL_GUEST_ADDRESS:7001" x --calls 1 2>refused.log
cat refused.log
grep -q "rdma://$FARCALL_GUEST_ADDRESS:7001" refused.log

kill -TERM "$pid"
wait "$pid" || { cat server.log; exit 1; }
cat server.log
