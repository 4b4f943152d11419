# What run.sh and two_hosts.sh share: a guest from the packages to the end of its QEMU. Sourced.
# Needs $here (tests/guest), $source (the root of the tree) and $build (build/<preset>).

set -eu

say() { echo "guest: $*" >&2; }
fail() { say "$*"; exit 2; }

# One word of a shell command for each argument, whatever it holds.
quote() {
  for word in "$@"; do
    printf "'%s' " "$(printf '%s\n' "$word" | sed "s/'/'\\\\''/g")"
  done
}

prepare_guest() {
  sh "$source/.ci/setup.sh" "$here/packages" || exit 2
  kernel=$(sh "$here/kernel.sh") || exit 2
}

# make_folder <name>: a new $folder for what comes back from guests; the oldest ones go.
make_folder() {
  runs=$build/guest
  mkdir -p "$runs"
  for old in $(ls -td "$runs/$1".* 2>/dev/null | tail -n +4); do
    kill -0 "${old##*.}" 2>/dev/null || rm -rf "$old"
  done
  folder=$runs/$1.$$
  rm -rf "$folder"
  mkdir "$folder"
}

# write_settings name=value...: what the guest with the folder $run is told, and every FARCALL_
# variable of the caller.
write_settings() {
  mkdir -p "$run/jobs" "$run/results"
  {
    echo "source=$(quote "$source")"
    echo "build=$(quote "$build")"
    echo "run=$(quote "$run")"
    for setting in "$@"; do
      echo "${setting%%=*}=$(quote "${setting#*=}")"
    done
    env | sed -n 's/^\(FARCALL_[A-Z0-9_]*\)=.*/\1/p' | while read -r name; do
      eval "value=\$$name"
      echo "export $name=$(quote "$value")"
    done
  } >"$run/settings"
}

# Prints the path of a program, or the name itself if it is a command.
find_program() {
  for candidate in "$build/bin/tests/$1" "$build/bin/$1" "$here/checks/$1"; do
    [ ! -x "$candidate" ] || { echo "$candidate"; return; }
  done
  case $1 in
    /*) [ -x "$1" ] && echo "$1" ;;
    */*) [ -x "$1" ] && echo "$PWD/$1" ;;
    *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" ;;
  esac
}

# write_job <file> <limit> <program> args...: for the guest to run; it looks for the whole file.
write_job() {
  file=$1
  seconds=$2
  shift 2
  program=$(find_program "$1") || fail "no program '$1': neither a file nor below $build/bin"
  case $program in
    "$source"/*|"$build"/*) ;;
    /tmp/*|/var/tmp/*|/run/*) fail "$program: the guest does not see the host's $program" ;;
  esac
  : >"$file.log"
  { echo "limit=$seconds"
    echo "name=$(quote "$*")"
    shift
    echo "set -- $(quote "$program" "$@")"; } >"$file.new"
  mv "$file.new" "$file"
}

write_initramfs() {
  stage=$run/initramfs.d
  mkdir -p "$stage/bin" "$stage/dev" "$stage/proc" "$stage/sys" "$stage/host" "$stage/whole"
  cp /bin/busybox "$stage/bin/"
  cp "$here/init" "$run/settings" "$kernel/modules.order" "$stage/"
  cp -r "$kernel/modules" "$stage/modules"
  chmod 755 "$stage/init"
  (cd "$stage" && find . | cpio -o -H newc -R 0:0 --quiet) >"$run/initramfs"
  rm -rf "$stage"
}

# show_console <folder of a guest>: why it ended, and how.
show_console() {
  say "the console of the guest, $1/console.log, in parts:"
  grep -m 2 -E 'farcall-guest:|Kernel panic|BUG:|Oops' "$1/console.log" >&2 || true
  echo ... >&2
  tail -n 30 "$1/console.log" >&2 || true
}

# The kernel's words for its clock. With tsc=reliable it does not ask an emulated chip for the time,
# which is a system call and leaves the guest for each look: bench/guest.sh and two hosts do.
clock="no_timer_check ${FARCALL_GUEST_CLOCK:-}"

# qemu <seconds> argument...: becomes one guest (call it in a subshell). It ends when its time is
# up, when it is told to, and when whoever started it is killed.
qemu() {
  seconds=$1
  shift
  exec setpriv --pdeathsig KILL timeout --foreground -k 10 "$seconds" \
    setpriv --pdeathsig KILL qemu-system-x86_64 -no-user-config -nodefaults -display none \
    -no-reboot -machine q35 -accel "${FARCALL_GUEST_ACCEL:-tcg,thread=multi}" -cpu max -smp 2 \
    -m "${FARCALL_GUEST_MEMORY:-1024}" -kernel "$kernel/vmlinux" -initrd "$run/initramfs" \
    -append "console=ttyS0 loglevel=7 panic=-1 oops=panic nokaslr mitigations=off $clock" \
    -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=host,mount_tag=host \
    -fsdev "local,id=run,path=$run,security_model=none,multidevs=remap" \
    -device virtio-9p-pci,fsdev=run,mount_tag=run \
    -serial "file:$run/console.log" "$@"
}
