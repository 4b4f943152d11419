#!/bin/sh
# Boots two guests, a and b, plays one scenario of tests/guest/two_hosts with them, and ends them.
#
#   sh tests/guest/scenario.sh <scenario> <device> <build> <folder> <kernel>
#
# For two_hosts.sh. Results go to <folder>/a and <folder>/b.

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
scenario=$1
device=$2
build=$3
folder=$4
kernel=$5
FARCALL_GUEST_CLOCK=tsc=reliable
. "$here/boot.sh"

# ---- What scenarios use. A host is a or b. ----

# start <host> <limit> <program> args...: starts a program, whose job is $job then. It finds its
# host's address in FARCALL_GUEST_ADDRESS and the other's in FARCALL_GUEST_PEER_ADDRESS.
start() {
  number=$(($(ls "$folder/$1/jobs" | grep '^..$' | wc -l) + 1))
  job=$folder/$1/jobs/$(printf '%02d' "$number")
  shift
  write_job "$job" "$@"
}

# await_line <job> <text> <seconds>: until the program has written it.
await_line() {
  await "$3" grep -qF -e "$2" "$1.log" || broken "it did not say '$2' within $3 s" "$1"
}

# expect <job> <end>: waits until the program ended, and it did so in this way: 'passed', or the
# beginning of what is said of a failure, as 'failed: exit status 1'.
expect() {
  await "$(($(sed -n 's/^limit=//p' "$1") + 30))" [ -e "$1.end" ] ||
    broken "its host does not answer any more" "$1"
  case $(cat "$1.end") in
    "$2"*) ;;
    *) broken "$(cat "$1.end"); it should have $2" "$1" ;;
  esac
}

# run <host> <limit> <program> args...: a program that passes.
run() {
  start "$@"
  expect "$job" passed
}

# The host ends between two instructions, as when its power fails. It takes its end of the cable
# along; the other end has a carrier still.
kill_host() {
  kill -KILL "$(cat "$folder/$1/qemu")"
  touch "$folder/$1/killed"
}

# The host b that was killed boots again. Its results until then are in <folder>/b.killed.
reboot_b() {
  mv "$folder/b" "$folder/b.killed"
  boot_b
  await_boot b
}

# The host stands still, as when its kernel hangs; and goes on.
stop_host() { kill -STOP "$(cat "$folder/$1/qemu")"; }
continue_host() { kill -CONT "$(cat "$folder/$1/qemu")"; }

# Both ends see that there is no carrier.
cut_cable() { for host in a b; do echo "set_link cable off" >"$folder/$host/monitor"; done; }
mend_cable() { for host in a b; do echo "set_link cable on" >"$folder/$host/monitor"; done; }

# lose <percent>: of the packets of each direction; at 100 the network is gone and nobody is told.
lose() { for host in a b; do run "$host" 10 tc qdisc replace dev v0 root netem loss "$1%"; done; }
lose_none() { for host in a b; do run "$host" 10 tc qdisc delete dev v0 root; done; }

# ---- The guests ----

# await <seconds> <command>...: until it succeeds; fails when it does not.
await() {
  until=$(($(date +%s) + $1))
  shift
  until "$@"; do
    [ "$(date +%s)" -lt "$until" ] || return 1
    sleep 0.2
  done
}

# broken <reason> [job]: ends the scenario.
broken() {
  if [ $# -gt 1 ]; then
    say "$scenario on $device: $(sed -n 's/^name=//p' "$2"): $1; its last lines, of $2.log:"
    tail -n 40 "$2.log" >&2
  else
    say "$scenario on $device: $1"
  fi
  exit 1
}

# boot <host> <address> <address of the other> <end of the cable>
boot() {
  run=$folder/$1
  write_settings title="$device $1" device="$device" mode=serve address="$2" peer="$3"
  write_initramfs
  mkfifo "$run/monitor"
  # Held open: writing to a monitor whose guest is gone must not block.
  case $1 in a) exec 7<>"$run/monitor" ;; b) exec 8<>"$run/monitor" ;; esac
  (cd "$run" && qemu 900 -serial "file:$run/reports.log" -monitor stdio -pidfile "$run/qemu" \
    -netdev "stream,id=cable,$4,addr.type=unix,addr.path=../cable" \
    -device "virtio-net-pci,netdev=cable,host_mtu=4500,romfile=,mac=52:54:00:00:00:0$1" \
    <"$run/monitor" >"$run/monitor.log" 2>&1) &
  guests="$guests $!"
  await 30 [ -e "$run/qemu" ] || broken "QEMU does not start; see $run/monitor.log"
}

boot_a() {
  boot a 198.51.100.1 198.51.100.2 server=on
  await 10 [ -e "$folder/cable" ] || broken "QEMU makes no cable; see $folder/a/monitor.log"
}
boot_b() { boot b 198.51.100.2 198.51.100.1 server=off; }

await_boot() {
  await 120 ready_or_gone "$folder/$1" && [ -e "$folder/$1/ready" ] ||
    { show_console "$folder/$1"; broken "$1 does not boot"; }
  rm "$folder/$1/initramfs"
}
# QEMU removes its pidfile when it ends.
ready_or_gone() { [ -e "$1/ready" ] || [ ! -e "$1/qemu" ]; }

# The hosts that live end, and their kernels had nothing to complain of.
end_both() {
  for host in a b; do
    [ ! -e "$folder/$host/killed" ] || continue
    touch "$folder/$host/stop"
    await 30 [ -e "$folder/$host/done" ] ||
      { show_console "$folder/$host"; broken "$host hangs or crashed"; }
    trouble=$(cat "$folder/$host/trouble")
    [ -z "$trouble" ] || broken "the kernel of $host says: $trouble"
  done
}

guests=""
trap 'kill $guests 2>/dev/null || true; wait' EXIT
trap 'exit 1' HUP INT TERM
boot_a
boot_b
await_boot a
await_boot b
. "$here/two_hosts/$scenario.sh"
end_both
