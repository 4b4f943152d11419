# Our own programs: calls across the cable; the server's host dies under them, and the client says
# so within its deadline; it comes back, and is served again.
server=rdma://198.51.100.2:7000
start b 400 farcall_echo_server "$server"
run b 60 await_listener.sh
run a 120 farcall doctor "$server"
run a 120 farcall_echo_client "$server" 'across the cable' --calls 100 --timeout 30

# A network that loses every 50th packet: slower, and nothing else.
lose 2
run a 200 farcall_echo_client "$server" 'through losses' --calls 30 --timeout 60
lose_none

# The documented bound: adapters give up after some 8 s, and without traffic PINGs after 20 s.
start a 120 farcall_echo_client "$server" 'to the end' --calls 100000000 --timeout 60
sleep 5
kill_host b
expect "$job" "failed: exit status 1"

reboot_b
start b 300 farcall_echo_server "$server"
server_job=$job
run b 60 await_listener.sh
# The first attempt may be refused as stale (README.md); the channel makes another.
run a 120 farcall_echo_client "$server" 'back again' --calls 10 --timeout 100
