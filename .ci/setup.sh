#!/bin/sh
# Installs the packages of a list that are missing. Called by tests/run.sh, bench/demo.sh and
# tests/guest/run.sh, which has a list of its own, as the demo's peers have.
#
#   sh .ci/setup.sh [list]      the list is .ci/packages unless given
#
# Needs Debian 12 and root or sudo; well under a second when nothing is missing. Runs before
# anything is installed: plain POSIX sh, with what a minimal Debian has (dpkg, apt, sed).
# FARCALL_SKIP_SETUP=1 skips it, for machines where the same things come from elsewhere.

set -eu

packages_file=${1:-$(dirname "$0")/packages}

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }

wanted() { sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$packages_file"; }

# Prints the wanted packages that dpkg does not have installed, on one line.
missing() {
  # dpkg-query fails when it does not know one of the names; what it prints is right all the same.
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $(wanted) 2>/dev/null |
              sed -n 's/ installed$//p') || true
  list=""
  for package in $(wanted); do
    case "
$installed
" in
      *"
$package
"*) ;;
      *) list="$list $package" ;;
    esac
  done
  echo "${list# }"
}

# Sets $as_root to what makes the command behind it run as root: nothing, or sudo.
find_root() {
  as_root=""
  [ "$(id -u)" -ne 0 ] || return 0
  if command -v sudo >/dev/null 2>&1; then
    as_root=sudo
    [ -t 0 ] || as_root="sudo -n"  # nobody is there to type a password
    $as_root true 2>/dev/null && return 0
  fi
  fail "not root and no sudo; run as root: apt-get install -y --no-install-recommends $list"
}

apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"; }

install() { apt install -y --no-install-recommends $list; }

[ "${FARCALL_SKIP_SETUP:-0}" != 1 ] || exit 0
command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 ||
  fail "no dpkg here; install what $packages_file lists by hand and set FARCALL_SKIP_SETUP=1"

list=$(missing)
[ -n "$list" ] || exit 0
find_root
say "installing: $list"
# The package lists may be absent or out of date: only then are they fetched, once.
if ! apt -s install --no-install-recommends $list >/dev/null 2>&1 || ! install; then
  say "fetching the package lists"
  apt update || fail "apt-get update failed; check the network and /etc/apt/sources.list"
  install || fail "apt-get install failed; read its last lines above (Debian 12 has all of: $list)"
fi
list=$(missing)
[ -z "$list" ] || fail "still missing after the installation: $list"
