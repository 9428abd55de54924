#!/bin/sh
# Partitions a disk. Not idempotent: its role is destructive, and runs once.
#
# A check compares the mark with the attribute disk_device. It does not look at the partitions.
set -eu
. "$OCB_LIBRARY"

device=$(read_attribute disk/device null)
table=$(read_attribute disk/table)
mark=$root/var/lib/nodepool-ocb/disk-layout
if ! checking && { [ -e "$mark" ] || [ -L "$mark" ]; }; then
  echo "$mark says that this was done before; remove it if the disk may be lost" >&2
  exit 1
fi
echo "$device" | put "$mark"
if ! checking && [ "$device" != null ] && [ -z "$root" ]; then
  lines "$table" | sfdisk --wipe always "$device"
fi
write_attribute disk/done "$device"
