#!/bin/sh
# As many clients as are asked for, each a process, all at once: everyone is served.
#
#   crowd.sh <clients>

set -eu

server=rdma://$FARCALL_GUEST_ADDRESS:7000
farcall_echo_server "$server" --quiet >server.log 2>&1 &
pid=$!
await_listener.sh
clients=
for i in $(seq "$1"); do
  farcall_echo_client "$server" "client $i" --calls 3 --timeout 200 >"client.$i" 2>&1 &
  clients="$clients $!"
done
failed=0
i=0
for client in $clients; do
  i=$((i + 1))
  wait "$client" || { failed=$((failed + 1)); cat "client.$i"; }
  grep -q "^client $i$" "client.$i" || echo "client $i heard something else"
done
echo "$failed of $1 clients failed"
[ "$failed" = 0 ]
kill -TERM "$pid"
wait "$pid" || { cat server.log; exit 1; }
cat server.log
