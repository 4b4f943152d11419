#!/bin/sh
# A process that may lock 64 KiB: the error names the limit and what to do, on either side, and the
# other side lives on.

set -eu

# Becomes the program. Who has CAP_IPC_LOCK may lock any.
little() { ulimit -l 64 && exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "$@"; }
says() { grep -q -e "$2" "$1" || { echo "$1 does not say: $2"; cat "$1"; exit 1; }; }

server=rdma://$FARCALL_GUEST_ADDRESS:7000
farcall_echo_server "$server" --quiet >server.log 2>&1 &
pid=$!
await_listener.sh
! (little farcall_echo_client "$server" x --calls 1 --timeout 10) 2>client.log
cat client.log
says client.log "cannot register [0-9]* bytes"
says client.log "may lock 65536 bytes (RLIMIT_MEMLOCK): raise it with 'ulimit -l unlimited'"
farcall_echo_client "$server" 'others can' --calls 10 --timeout 60
kill -TERM "$pid"
wait "$pid"

# The server's own limit: it says so, and the client hears why.
little farcall_echo_server "$server" --quiet >server.log 2>&1 &
pid=$!
await_listener.sh
! farcall_echo_client "$server" x --calls 1 --timeout 20 2>client.log
cat client.log server.log
says server.log "RLIMIT_MEMLOCK"
says client.log "the server refused the connection: it has no memory or queues for it"
kill -TERM "$pid"
wait "$pid"
