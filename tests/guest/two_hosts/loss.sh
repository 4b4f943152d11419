# A network that loses every 20th packet: slower, and nothing else.
lose 5
start b 120 rping -s -C 20 -a 198.51.100.2
server=$job
run b 30 await_listener.sh
run a 120 rping -c -C 20 -a 198.51.100.2
expect "$server" passed
lose_none
