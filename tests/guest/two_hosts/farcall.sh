# Our own programs: calls across the cable. The server's host dies under them, and the cable is cut
# under them: the client says so within the documented bound, and its next call goes elsewhere;
# what comes back is used again.
server=rdma://198.51.100.2:7000
elsewhere=tcp://127.0.0.1:7001  # without a cable the adapter has no port that is up

# Adapters give up after some 8 s (VerbsOptions::ack_timeout, retries). Soft-iWARP leaves that to
# its TCP, which tries for minutes: three PINGs of 5 s without an answer end it after 20 s. And two
# guests on two cores are slow.
case $device in rxe) bound=15 ;; siw) bound=35 ;; esac

# under_traffic <limit>: calls without end, by $job.
under_traffic() {
  start a "$1" stdbuf -oL farcall_echo_client "$server" 'to the end' --calls 100000000 \
    --timeout 50
  await_line "$job" 'to the end' 60
  sleep 2
  [ ! -e "$job.end" ] || broken "it ended before anything was done to it" "$job"
}

# lost_within_bound: the calls of $job, whose peer went away just now; and the next one goes
# elsewhere. The call that was under way is idempotent, and waits for the server until its deadline.
lost_within_bound() {
  gone=$(date +%s)
  caller=$job
  await_line "$caller" 'channel: lost' "$bound"
  say "$scenario on $device: noticed after $(($(date +%s) - gone)) s"
  run a 60 farcall_echo_client "$elsewhere" 'elsewhere' --calls 10 --timeout 30
  expect "$caller" "failed: exit status 1"
  grep -q "outcome='unknown'" "$caller.log" || broken "the outcome is not unknown" "$caller"
}

start a 900 farcall_echo_server "$elsewhere"
start b 400 farcall_echo_server "$server"
run b 60 await_listener.sh
# Neighbours have to find each other first, which doctor tries once.
run a 60 busybox ping -c 3 -W 30 198.51.100.2
run a 120 farcall doctor "$server"
run a 120 farcall_echo_client "$server" 'across the cable' --calls 100 --timeout 30

# A network that loses every 50th packet: slower, and nothing else.
lose 2
run a 200 farcall_echo_client "$server" 'through losses' --calls 30 --timeout 60
lose_none

# Cut for a second, and calls go on; cut for good, and they end. A cable that is back is used.
under_traffic 120
cut_cable
sleep 1
mend_cable
sleep 4
[ ! -e "$job.end" ] || broken "a second without a cable ended it" "$job"
cut_cable
lost_within_bound
mend_cable
run a 120 farcall_echo_client "$server" 'mended' --calls 10 --timeout 100

under_traffic 120
kill_host b
lost_within_bound

reboot_b
start b 300 farcall_echo_server "$server"
run b 60 await_listener.sh
# The first attempt may be refused as stale (README.md); the channel makes another.
run a 120 farcall_echo_client "$server" 'back again' --calls 10 --timeout 100
