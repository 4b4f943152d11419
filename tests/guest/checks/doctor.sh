#!/bin/sh
# `farcall doctor` on a machine that has an adapter, with and without what makes it work.

set -eu

# expect <exit status> <arguments>...: its report is in ./report then.
expect() {
  wanted=$1
  shift
  code=0
  farcall doctor "$@" >report || code=$?
  cat report
  [ "$code" = "$wanted" ] || { echo "exit status $code, not $wanted"; exit 1; }
}
says() { grep -q -e "$1" report || { echo "it does not say: $1"; exit 1; }; }

expect 0
says "^ok  *rdma://  *can be used"
says "^ok  *adapters  *$FARCALL_GUEST_DEVICE: "
says "^ok  *port  *$FARCALL_GUEST_DEVICE port 1 is active"
says "ib_uverbs loaded"
used="(RoCE v2, $FARCALL_GUEST_INTERFACE)"
gid="$FARCALL_GUEST_DEVICE port 1: index .* $FARCALL_GUEST_ADDRESS $used"
case $FARCALL_GUEST_DEVICE in
  rxe*) says "^ok  *GID  *$gid" ;;
  siw*) says "iWARP" ;;
esac

server=rdma://$FARCALL_GUEST_ADDRESS:7000
farcall_echo_server "$server" --quiet >server.log 2>&1 &
pid=$!
await_listener.sh
expect 0 "$server"
for step in connect HELLO PING "4 KiB" "1 MiB"; do
  says "^ok  *$step  *[0-9.]* [um]s: "
done
case $FARCALL_GUEST_DEVICE in
  rxe*) says "because the route there leaves by $FARCALL_GUEST_ADDRESS" ;;
esac
kill -TERM "$pid"
wait "$pid" || { cat server.log; exit 1; }

# Nobody listens there.
expect 1 "$server"
says "^PROBLEM  *connect  *$server: "

# Too little memory may be locked; who has CAP_IPC_LOCK may lock any.
ordinary="setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock"
(ulimit -l 64; code=0; $ordinary farcall doctor >report || code=$?; [ "$code" = 1 ])
says "^PROBLEM  *memlock  *65536 bytes"
says "ulimit -l unlimited"

# The interface goes down, and with it the port.
ip link set "$FARCALL_GUEST_INTERFACE" down
code=0
farcall doctor >report || code=$?
ip link set "$FARCALL_GUEST_INTERFACE" up
cat report
[ "$code" = 1 ]
says "^PROBLEM  *port  *$FARCALL_GUEST_DEVICE port 1 is down"
says "ip link set .* up"

# And the adapter itself; guest.sh makes it anew.
rdma link delete "$FARCALL_GUEST_DEVICE"
expect 1
says "^PROBLEM  *adapters  *this machine has no RDMA adapter"
says "rdma link add .* netdev $FARCALL_GUEST_INTERFACE"
