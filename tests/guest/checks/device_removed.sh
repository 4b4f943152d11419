#!/bin/sh
# The adapter is taken away under traffic: the log says so, and the call that was under way ends by
# its deadline. Linux 6.1 lets a software adapter go only when the last process has closed it, so
# the server ends, too, and the adapter with it. Once it is back, new processes work.

set -eu

server=rdma://$FARCALL_GUEST_ADDRESS:7000
type=${FARCALL_GUEST_DEVICE%0}
farcall_echo_server "$server" >server.log 2>&1 &
pid=$!
await_listener.sh
farcall_echo_client "$server" x --calls 100000000 --timeout 20 >client.log 2>&1 &
client=$!
# Traffic: the server has taken a hundred calls.
taken='server calls  started=[0-9]\{3,\}'
until kill -USR1 "$pid" && grep -q "$taken" server.log; do sleep 0.5; done

rdma link delete "$FARCALL_GUEST_DEVICE" &
removal=$!
code=0
wait "$client" || code=$?
cat client.log
[ "$code" = 1 ]
grep -q "$server: the adapter $FARCALL_GUEST_DEVICE was removed" client.log

kill -TERM "$pid"
wait "$pid" || { cat server.log; exit 1; }
wait "$removal"
[ ! -e "/sys/class/infiniband/$FARCALL_GUEST_DEVICE" ]
rdma link add "$FARCALL_GUEST_DEVICE" type "$type" netdev "$FARCALL_GUEST_INTERFACE"
echo.sh 100
