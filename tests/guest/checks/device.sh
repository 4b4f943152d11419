#!/bin/sh
# The guest has the one device it was asked for, with an active port.

set -eu
[ "$(ls /sys/class/infiniband)" = "$FARCALL_GUEST_DEVICE" ]
ibv_devinfo -d "$FARCALL_GUEST_DEVICE" | grep -w PORT_ACTIVE
