#!/bin/sh
# Runs programs on real verbs: in a QEMU guest with Soft-RoCE or soft-iWARP. Needs no adapter, no
# kernel module on this machine, and no root but for what apt installs.
#
#   sh tests/guest/run.sh [--device rxe|siw|both] [-- program args...]
#
#   sh tests/guest/run.sh                                 what tests/guest/programs lists, on both
#   sh tests/guest/run.sh --device siw -- ibv_devinfo -v  one program
#   sh tests/guest/run.sh -- rpc.buffer "a case"          one of build/release/bin/tests
#   sh tests/guest/run.sh --device rxe --shell            a shell in the guest; leave it with 'exit'
#   sh tests/guest/run.sh --prepare                       only what is needed before the first boot
#
#   --build DIR    where the programs are: build/release
#   --list FILE    another list than tests/guest/programs
#   --limit N      the seconds that a program after -- may take: 60
#   --boot N       the seconds that the guest may take for all else: 90
#   --results DIR  where files go that programs write to FARCALL_GUEST_RESULTS
#
# A program is a file, a name in DIR/bin/tests, DIR/bin or tests/guest/checks, or any command of
# this machine. The exit status is 0 when all passed, 1 when something failed, hung or crashed.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
build=$source/build/release
. "$here/boot.sh"

device=both
list=$here/programs
limit=60
boot=90  # it takes five seconds when the guest has a core for itself
mode=jobs
results=""
while [ $# -gt 0 ]; do
  case $1 in
    --device|--build|--list|--limit|--boot|--results) [ $# -ge 2 ] || fail "$1 needs a value" ;;
  esac
  case $1 in
    --device) device=$2; shift 2 ;;
    --build) build=$(cd "$2" && pwd) || fail "no folder $2"; shift 2 ;;
    --list) list=$2; shift 2 ;;
    --limit) limit=$2; shift 2 ;;
    --boot) boot=$2; shift 2 ;;
    --results) results=$2; shift 2 ;;
    --shell|--prepare) mode=${1#--}; shift ;;
    -h|--help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --) shift; break ;;
    *) fail "unknown argument '$1'; a program goes after --" ;;
  esac
done
case $device in
  rxe|siw) devices=$device ;;
  both) devices="rxe siw" ;;
  *) fail "unknown device '$device'; there are rxe, siw and both" ;;
esac

# add_job <limit> <program> args...
add_job() {
  number=$((number + 1))
  total=$((total + $1 + 15))
  write_job "$run/jobs/$(printf '%02d' "$number")" "$@"
}

# Reads the list: a line is the devices (rxe, siw, both), a limit in seconds, and the program with
# its arguments as a shell reads them, but for wildcards.
add_list() {
  set -f
  while read -r on seconds words; do
    case $on in
      ''|'#'*) ;;
      both|"$device") eval "add_job $seconds $words" ;;
      rxe|siw) ;;
      *) fail "$list: '$on' is no device" ;;
    esac
  done <"$list"
  set +f
}

# Sets $bad when a job did not pass, and shows what there is of it.
judge() {
  for job in "$run"/jobs/??; do
    [ -e "$job" ] || continue
    . "$job"
    end=$(cat "$job.end" 2>/dev/null) || end="failed: the guest ended before it did"
    [ "$end" != passed ] || continue
    bad=1
    say "--- $name on $device: $end; its last lines, of $job.log:"
    [ "$live" = 1 ] || tail -n 60 "$job.log" >&2
    [ -e "$run/done" ] || break
  done
  if [ "$bad" = 0 ] && [ -s "$run/trouble" ]; then
    bad=1
    say "--- the kernel says: $(cat "$run/trouble"); see $run/dmesg"
  fi
  if [ ! -e "$run/done" ]; then
    bad=1
    say "--- the guest did not come to its end"
    show_console "$run"
  fi
}

run_guest() {
  make_folder "$device"
  run=$folder
  write_settings title="$device" device="$device" mode="$mode" \
    address=198.51.100.1 peer=198.51.100.1
  number=0
  total=$boot
  live=0
  if [ "$mode" = shell ]; then
    total=86400
  elif [ $# -gt 0 ]; then
    add_job "$limit" "$@"
    live=1
  else
    add_list
  fi
  write_initramfs
  if [ "$mode" = shell ]; then
    say "the console is in $run/console.log; Ctrl-A x kills the guest"
    (qemu "$total" -serial mon:stdio)
  else
    qemu "$total" -serial stdio </dev/null &
    guest=$!
    trap 'kill "$guest" 2>/dev/null' EXIT
    trap 'exit 1' HUP INT TERM
    [ "$live" = 0 ] || tail -n +1 -f -s 0.2 --pid="$guest" "$run/jobs/01.log" &
    wait "$guest" || say "QEMU ended with status $? (124: after $total s)"
    wait
    trap - EXIT
  fi
  rm -f "$run/initramfs"
  [ -z "$results" ] || cp -r "$run/results/." "$results/"
  [ "$mode" = shell ] || judge
}

prepare_guest
[ "$mode" != prepare ] || exit 0
bad=0
for device in $devices; do
  say "boots with $device"
  run_guest "$@"
done
exit "$bad"
