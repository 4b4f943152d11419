# For two seconds each: the cable is cut, and both ends see it; the network is gone, unseen; a host
# stands still. The connection outlives them all.
start b 200 rping -s -C 60 -a 198.51.100.2
server=$job
run b 30 await_listener.sh
start a 200 stdbuf -oL rping -c -C 60 -v -a 198.51.100.2
client=$job

await_line "$client" "rdma-ping-10:" 60
cut_cable
sleep 2
mend_cable

await_line "$client" "rdma-ping-20:" 60
lose 100
sleep 2
lose_none

await_line "$client" "rdma-ping-30:" 60
stop_host b
sleep 2
continue_host b

expect "$client" passed
expect "$server" passed
