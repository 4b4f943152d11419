#!/bin/sh
# in_guest.sh <root of the tree> <number of the first round> [--quick]: bench/guest.sh's part in the
# guest. Only the last table counts, which guest.sh makes of all devices.

set -eu
root=$1
first=$2
shift 2
device=$FARCALL_GUEST_DEVICE
"$root/build/release/bin/farcall_demo" --adapter "$device@$FARCALL_GUEST_ADDRESS" \
  --first-round "$first" --json "/tmp/$device.json" "$@"
cp "/tmp/$device.json" "$FARCALL_GUEST_RESULTS/${device%0}.json"
