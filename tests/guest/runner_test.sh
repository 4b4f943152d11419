#!/bin/sh
# Does the runner tell when a program or the guest fails? Plants what can go wrong and reads what
# run.sh says of it.
#
#   sh tests/guest/runner_test.sh [case...]        all cases unless named

set -eu

here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

# expect <exit status> argument...: runs run.sh; its output is then in $scratch/said.
expect() {
  wanted=$1
  shift
  got=0
  sh "$here/run.sh" --build "$scratch" "$@" >"$scratch/said" 2>&1 </dev/null || got=$?
  [ "$got" = "$wanted" ] || complain "exit status $got, not $wanted"
}

# The runner said this, a line of it or a part of one.
said() { grep -qF -e "$1" "$scratch/said" || complain "it did not say '$1'"; }

complain() {
  failures=$((failures + 1))
  echo "runner_test: $case: $*; it said:"
  cat "$scratch/said"
}

# Programs that fail in every way beside those that pass: each is told, and the guest goes on.
case_programs() {
  cat >"$scratch/list" <<'END'
rxe 20 sh -c 'echo all is well'
rxe 20 sh -c 'echo "a last word"; exit 3'
rxe 2 sh -c 'trap "" TERM; echo "still here"; sleep 600'
rxe 20 sh -c 'kill -SEGV $$'
rxe 20 sh -c 'sleep 600 & setsid sleep 601 & exit 0'
rxe 20 sh -c '! pgrep sleep'
rxe 20 sh -c 'echo "<4>BUG: planted" >/dev/kmsg'
rxe 20 rdma link delete rxe0
siw 20 false
both 20 device.sh
END
  expect 1 --device rxe --list "$scratch/list"
  said "rxe: sh -c echo all is well: passed"
  said "exit 3: failed: exit status 3"
  said "a last word"
  said "sleep 600: failed: not done after 2 s"
  said "still here"
  said "failed: killed by SIGSEGV"
  said "exit 0: passed"
  said "! pgrep sleep: passed"
  said "failed: the kernel says: "
  said "rxe: rdma link delete rxe0: passed"
  said "rxe: device.sh: passed"
  ! grep -F "siw" "$scratch/said" || complain "it ran what is for siw on rxe"
}

case_kernel_crash() {
  echo "rxe 20 sh -c 'echo c >/proc/sysrq-trigger; sleep 600'" >"$scratch/list"
  echo "rxe 20 true" >>"$scratch/list"
  expect 1 --device rxe --list "$scratch/list"
  said "failed: the guest ended before it did"
  said "the guest did not come to its end"
  said "Kernel panic"
}

# The guest's own watchdog is stopped: the one around QEMU ends it.
case_guest_hangs() {
  expect 1 --device rxe --boot 10 --limit 5 -- sh -c 'pkill -STOP -f guest/guest.sh; sleep 600'
  said "QEMU ended with status 124"
  said "failed: the guest ended before it did"
}

case_no_such_program() {
  expect 2 --device rxe -- no_such_program
  said "no program 'no_such_program'"
}

# A runner that is killed takes its guest along.
case_killed() {
  sh "$here/run.sh" --build "$scratch" --device rxe -- sh -c 'echo here; sleep 60' \
    >"$scratch/said" 2>&1 </dev/null &
  runner=$!
  await "a guest" guest_runs
  kill -KILL "$runner"
  await "its end" guest_is_gone
}

guest_runs() { cat "$scratch"/guest/*/jobs/01.log 2>/dev/null | grep -q here; }
guest_is_gone() { ! pgrep -f "path=$scratch/guest/" >/dev/null; }

# await <what> <command>: within a minute.
await() {
  for _ in $(seq 120); do
    ! "$2" || return 0
    sleep 0.5
  done
  complain "waited a minute for $1"
}

[ $# -gt 0 ] || set -- programs kernel_crash guest_hangs no_such_program killed
for case in "$@"; do
  echo "runner_test: $case"
  "case_$case"
done
[ "$failures" = 0 ]
