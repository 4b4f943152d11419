#!/bin/sh
# The adapter is taken away under traffic. Linux 6.1 lets a software adapter go when the last
# process has closed it, and tells nobody before: so both processes end when they are told to, in
# time, and with that the adapter goes; once it is back, new ones work.

set -eu

server=rdma://$FARCALL_GUEST_ADDRESS:7000
type=${FARCALL_GUEST_DEVICE%0}
farcall_echo_server "$server" >server.log 2>&1 &
pid=$!
await_listener.sh
farcall_echo_client "$server" x --calls 100000000 --timeout 10 >client.log 2>&1 &
client=$!
# Traffic: the server has taken a hundred calls.
taken='server calls  started=[0-9]\{3,\}'
until kill -USR1 "$pid" && grep -q "$taken" server.log; do sleep 0.5; done

rdma link delete "$FARCALL_GUEST_DEVICE" &
removal=$!
sleep 2

# The server drains. Its client sees the end, as of any server.
kill -TERM "$pid"
code=0
wait "$pid" || code=$?
tail -n 5 server.log
[ "$code" -le 1 ]
code=0
wait "$client" || code=$?
cat client.log
[ "$code" = 1 ]
grep -q "farcall_echo_client: .*$server" client.log

wait "$removal"
[ ! -e "/sys/class/infiniband/$FARCALL_GUEST_DEVICE" ]
rdma link add "$FARCALL_GUEST_DEVICE" type "$type" netdev "$FARCALL_GUEST_INTERFACE"
echo.sh 100
