#!/bin/sh
# Makes the guest's kernel from Debian's packages, unless it is there, and prints its folder:
#   vmlinux         unpacked: QEMU boots it in a second; Debian's own vmlinuz unpacks itself in ten
#   modules/*.ko    what tests/guest/modules lists, all they depend on, and siw, which Debian lacks
#   modules.order   their names in the order of loading
#
#   sh tests/guest/kernel.sh
#
# The packages are downloaded and unpacked, not installed: no root, but for fetching package lists
# that are absent or out of date. FARCALL_GUEST_CACHE is where the folder lies (build/guest).

set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=${FARCALL_GUEST_CACHE:-$here/../../build/guest}
say() { echo "guest kernel: $*" >&2; }
fail() { say "$*"; exit 1; }

listed() { sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$1"; }

# Sets $release (6.1.0-57-amd64) and $version (6.1.192-3) of the kernel that Debian has now, and the
# $folder for it.
find_version() {
  depends=$(apt-cache --no-all-versions show linux-image-amd64 2>/dev/null |
            sed -n 's/^Depends: linux-image-\([^ ]*\) (= \([^)]*\)).*/\1 \2/p')
  release=${depends% *}
  version=${depends#* }
  folder=$cache/kernel-$version-$recipe
  [ -n "$depends" ]
}

fetch_lists() {
  say "fetching the package lists"
  as_root=""
  [ "$(id -u)" -eq 0 ] || as_root="sudo -n"
  $as_root apt-get -q -o DPkg::Lock::Timeout=300 update >&2 ||
    fail "apt-get update failed; run it as root, and check /etc/apt/sources.list"
}

# Downloads into the current folder. All of one version: a module fits its own kernel only.
download() {
  say "downloading Debian's kernel $version, its headers and its source"
  apt-get -qq download "linux-image-$release=$version" "linux-headers-$release=$version" \
    "linux-headers-${release%-*}-common=$version" "linux-kbuild-${version%.*}=$version" \
    "linux-source-${version%.*}=$version" 2>apt.log
}

unpack() {
  say "unpacking"
  mkdir tree
  for package in linux-image-*.deb linux-headers-*.deb linux-kbuild-*.deb; do
    dpkg-deb -x "$package" tree
  done
  # A bzImage is a loader and the kernel behind it.
  image=tree/boot/vmlinuz-$release
  offset=$(LC_ALL=C grep -abo "$(printf '\3757zXZ')" "$image" |
           head -n 1 | cut -d: -f1)
  [ -n "$offset" ] || fail "$image is not packed with xz: kernel.sh must learn how it is"
  tail -c "+$((offset + 1))" "$image" | xz -dc --single-stream >vmlinux
}

build_siw() {
  say "building siw"
  dpkg-deb --fsys-tarfile linux-source-*.deb | tar -xO --wildcards './usr/src/*.tar.xz' |
    tar -xJ --strip-components=4 --wildcards '*/drivers/infiniband/sw/siw/*'
  headers=$PWD/tree/usr/src/linux-headers-$release
  sed -i "s#/usr/src/#$PWD/tree/usr/src/#" "$headers/Makefile"
  env -u MAKEFLAGS -u MAKELEVEL make -C "$headers" "M=$PWD/siw" CONFIG_RDMA_SIW=m modules \
    >siw.log 2>&1 || { tail -n 20 siw.log >&2; fail "siw does not build; see above"; }
  strip --strip-debug siw/siw.ko
  mkdir -p "tree/lib/modules/$release/updates"
  cp siw/siw.ko "tree/lib/modules/$release/updates/"
}

collect_modules() {
  mkdir modules
  depmod -b tree "$release"
  for module in $(listed "$here/modules"); do
    modprobe -d tree -S "$release" --show-depends "$module" >>depends ||
      fail "Debian's kernel $version has no module $module"
  done
  sed -n 's/^insmod \([^ ]*\).*/\1/p' depends | awk '!seen[$0]++' >paths
  while read -r path; do
    cp "$path" modules/
    basename "$path"
  done <paths >modules.order
}

# Makes $folder in one step, or not at all. Lists that are out of date name packages that are gone.
make_kernel() {
  new=$cache/new-kernel
  rm -rf "$new"
  trap 'rm -rf "$new"' EXIT
  trap 'exit 1' HUP INT TERM
  mkdir "$new"
  cd "$new"
  download || { fetch_lists; find_version; download; } ||
    { cat apt.log >&2; fail "cannot download the kernel's packages; see above"; }
  unpack
  build_siw
  collect_modules
  mkdir result
  mv vmlinux modules modules.order result/
  [ -d "$folder" ] || mv result "$folder"
  # Kernels of former times; a younger one may be about to boot.
  find "$cache" -maxdepth 1 -name 'kernel-*' -mtime +7 ! -path "$folder" -exec rm -rf {} +
}

[ "$(dpkg --print-architecture)" = amd64 ] || fail "the guest is an amd64 machine; this is not one"
PATH=$PATH:/usr/sbin:/sbin
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
recipe=$(cat "$here/modules" "$here/kernel.sh" | sha256sum | cut -c 1-12)

find_version || { fetch_lists; find_version; } || fail "apt knows no package linux-image-amd64"
if [ ! -d "$folder" ]; then
  exec 9>"$cache/lock"
  flock -w 900 9 || fail "another run has been making the kernel for 15 minutes; see $cache/lock"
  [ -d "$folder" ] || make_kernel
fi
echo "$folder"
