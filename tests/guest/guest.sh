#!/bin/sh
# Runs inside the guest, among the host's files: makes the device and runs the jobs, each with its
# own time limit. The folder in $1 is the host's too:
#   settings      what the host says: title, device=rxe|siw, address, peer, and mode: jobs (those
#                 that are there), serve (jobs that come while others run) or shell
#   jobs/NN       a job, a piece of shell: name=, limit= in seconds, and 'set -- program args...'
#   jobs/NN.log   what it wrote
#   jobs/NN.end   how it ended: 'passed', or 'failed' with the reason; absent: it never did
#   results/      what programs leave in FARCALL_GUEST_RESULTS
#   dmesg         the kernel's log
#   trouble       a line of it that tells of a bug, or nothing
#   done          is there when guest.sh came to its end

set -u
run=$1
. "$run/settings"
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH="$build/bin:$build/bin/tests:$source/tests/guest/checks:$PATH"
export HOME=/tmp TMPDIR=/tmp
export FARCALL_GUEST_DEVICE="" FARCALL_GUEST_INTERFACE=v0
export FARCALL_GUEST_RESULTS="$run/results"
export FARCALL_GUEST_ADDRESS="$address" FARCALL_GUEST_PEER_ADDRESS="$peer"
# Its processors are emulated, and the host's may be busy.
export FARCALL_TEST_PATIENCE=${FARCALL_TEST_PATIENCE:-10}
cd /tmp

# Lines of the kernel's log that fail a run, whatever the programs say.
trouble='BUG:|Oops|WARNING:|Call Trace|general protection|blocked for more than|refcount_t'

report() { echo "$title: $*" >/dev/ttyS1; }

set_limits() {
  ulimit -l unlimited
  ulimit -c 0
  # A host that gives the guest no processor for a minute is no fault of the guest's.
  echo 60 >/proc/sys/kernel/watchdog_thresh
  echo 60 >/proc/sys/kernel/hung_task_timeout_secs
  echo 120 >/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout
  echo 1 >/proc/sys/kernel/sysrq
}

make_interface() {
  hostname farcall-guest
  ip link set lo up
  if [ -e /sys/class/net/eth0 ]; then
    ip link set eth0 name v0  # the cable to the other host
  else
    # With 9000 bytes a packet rxe takes its largest path MTU, 4096.
    ip link add v0 mtu 9000 type veth peer name v1 mtu 9000
    ip link set v1 up
  fi
  ip address add "$address/24" dev v0
  ip link set v0 up
}

# Makes the device anew if a job took it away.
make_device() {
  export FARCALL_GUEST_DEVICE="${device}0"
  [ -e "/sys/class/infiniband/${device}0" ] || rdma link add "${device}0" type "$device" netdev v0
}

# What the processes of session $1 are at.
show_stuck() {
  echo "farcall-guest: $limit s are over; its threads, and the stacks of those in state D:"
  ps -o pid,tid,stat,wchan:24,comm -L -s "$1"
  for thread in $(ps -o tid=,stat= -L -s "$1" | sed -n 's/^ *\([0-9]*\) D.*/\1/p'); do
    echo "$thread:"
    cat "/proc/$thread/stack"
  done
}

# Kills the session $1; fails when the kernel does not let it go.
kill_session() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    pkill -KILL -s "$1" || return 0
    sleep 1
  done
  return 1
}

# perftest's programs crash now and then, which is no fault of the kernel's.
kernel_trouble() {
  dmesg | tail -n "+$((dmesg_lines + 1))" | grep -v 'traps: ib_' | grep -m 1 -E "$trouble"
}

# Sets $end.
run_program() {
  now=/run/farcall-guest/${job##*/}
  mkdir -p "$now"
  mkfifo "$now/status"
  dmesg_lines=$(dmesg | wc -l)
  (
    setsid sh -c 'echo $$ >"$0"; exec "$@"' "$now/session" "$@" </dev/null
    echo $? >"$now/status"
  ) >>"$log" 2>&1 &
  code=$(timeout "$limit" cat "$now/status") || code=late
  session=$(cat "$now/session")
  case $code in
    0) end=passed ;;
    late) end="failed: not done after $limit s"; show_stuck "$session" >>"$log" 2>&1 ;;
    126|127) end="failed: cannot be run (exit status $code)" ;;
    1[3-9]?) end="failed: killed by SIG$(kill -l $((code - 128)))" ;;
    *) end="failed: exit status $code" ;;
  esac
  kill_session "$session" || end="$end; the kernel does not let it go"
  line=$(kernel_trouble) && end="failed: the kernel says: $line"
}

# A job from its file to its end.
do_job() {
  job=$1
  . "$job"
  log=$job.log
  started=$(cut -d. -f1 /proc/uptime)
  if make_device >>"$log" 2>&1; then
    run_program "$@"
  else
    end="failed: the device ${device}0 cannot be made"
  fi
  report "$name: $end ($(($(cut -d. -f1 /proc/uptime) - started)) s)"
  echo "$end" >"$job.new"
  mv "$job.new" "$job.end"
}

run_jobs() {
  for job in "$run"/jobs/??; do
    do_job "$job"
    kill -KILL -1  # whatever left its session: all but init and this shell
    case $end in *'does not let it go'*) return ;; esac
  done
}

# Starts each job when its file comes, beside those before it, until the host says stop.
serve_jobs() {
  make_device
  touch "$run/ready"
  number=1
  while [ ! -e "$run/stop" ]; do
    job=$run/jobs/$(printf '%02d' "$number")
    if [ -e "$job" ]; then
      (do_job "$job") &
      number=$((number + 1))
    else
      sleep 0.2
    fi
  done
}

set_limits
make_interface
case $mode in
  jobs) run_jobs ;;
  serve) serve_jobs ;;
  shell) make_device
         setsid -c sh -i </dev/ttyS1 >/dev/ttyS1 2>&1 ;;
esac
dmesg >"$run/dmesg"
dmesg_lines=0
kernel_trouble >"$run/trouble"
touch "$run/done"
