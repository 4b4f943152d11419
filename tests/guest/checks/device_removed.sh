#!/bin/sh
# The adapter goes away under traffic: calls end with the reason, both processes live on and end
# when they are told to, and with the adapter back new ones work.

set -eu

server=rdma://$FARCALL_GUEST_ADDRESS:7000
type=${FARCALL_GUEST_DEVICE%0}
farcall_echo_server "$server" >server.log 2>&1 &
pid=$!
await_listener.sh
farcall_echo_client "$server" x --calls 100000000 --timeout 10 >client.log 2>&1 &
client=$!
# Traffic: the server has taken a hundred calls.
until kill -USR1 "$pid" && grep -q 'server calls  started=[0-9]\{3,\}' server.log; do sleep 0.5; done

rdma link delete "$FARCALL_GUEST_DEVICE"
code=0
wait "$client" || code=$?
cat client.log
[ "$code" = 1 ]
grep -q "$server" client.log

kill -TERM "$pid"
code=0
wait "$pid" || code=$?
tail -n 5 server.log
[ "$code" -le 1 ]

rdma link add "$FARCALL_GUEST_DEVICE" type "$type" netdev "$FARCALL_GUEST_INTERFACE"
echo.sh 100
