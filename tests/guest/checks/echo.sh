#!/bin/sh
# The echo service over rdma://: Dial and Listen, a server and clients in processes of their own.
#
#   echo.sh <calls> [folder of the programs: those of build/release]

set -eu

calls=$1
programs=${2:-$(dirname "$0")/../../../build/release/bin}
server=rdma://$FARCALL_GUEST_ADDRESS:7000
"$programs/farcall_echo_server" "$server" --quiet >server.log 2>&1 &
pid=$!
"$programs/farcall_echo_client" "$server" 'over an adapter' --calls "$calls"
"$programs/farcall_echo_client" "$server" 'and again' --calls 10

# Where nobody listens it says so, and does not hang.
! "$programs/farcall_echo_client" "rdma://$FARCALL_GUEST_ADDRESS:7001" x --calls 1 2>refused.log
cat refused.log
grep -q "rdma://$FARCALL_GUEST_ADDRESS:7001" refused.log

kill -TERM "$pid"
wait "$pid" || { cat server.log; exit 1; }
cat server.log
