#!/bin/sh
# Returns when somebody listens by rdma_cm on this host's device. Its bound is the job's limit.

set -eu
until rdma resource show "$FARCALL_GUEST_DEVICE" | grep -q 'cm_id [1-9]'; do
  sleep 0.1
done
