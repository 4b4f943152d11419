# A host dies under traffic, and comes back.
start b 300 rping -s -a 198.51.100.2
run b 30 await_listener.sh
start a 300 stdbuf -oL rping -c -v -a 198.51.100.2
await_line "$job" "rdma-ping-10:" 60
kill_host b
start a 20 busybox ping -c 1 -W 5 198.51.100.2
expect "$job" "failed: exit status 1"
reboot_b
run a 60 busybox ping -c 1 -W 30 198.51.100.2
# More than one try: to rxe's connection manager on a, b's first queue pair is the one of its last
# life; it ends that connection and refuses the new one as stale. And rping has races of its own.
start b 150 sh -c 'for try in 1 2 3; do rping -s -C 10 -a 198.51.100.2 && exit; done; exit 1'
run b 30 await_listener.sh
run a 120 sh -c 'for try in 1 2 3; do
                   timeout 30 rping -c -C 10 -a 198.51.100.2 && exit
                   sleep 2
                 done; exit 1'
