# shellcheck shell=sh
# Partitions and file systems of a root that is installed from a tar: GPT, for BIOS and UEFI alike.
#
# Partition 1 is for GRUB's BIOS part, 2 for UEFI, 3 for the root (or its RAID, or its volume group), 4 for swap.

ESP_MIB=128
SPARE_MIB=200 # partitions, file system and journal
GROUP=system  # the name of the volume group

layout() { # layout KEY DEFAULT: a value of the order's layout
  value=$(ordered "layout.$1")
  echo "${value:-$2}"
}

run() { # a program that must work; its words are the reason if not
  "$@" >"$OCB_RUN/run" 2>&1 || die "$1 failed: $(tail -n 2 "$OCB_RUN/run" | tr '\n' ' '); the command was: $*"
}

let_go() { # let_go DISK: ends the swap, the volume groups and the arrays on it, and the signatures of its partitions
  above=$(lsblk --noheadings --list --paths --output NAME,TYPE "$1" 2>/dev/null)
  set -- # of the partitions
  while read -r device kind; do
    swapoff "$device" 2>/dev/null </dev/null
    if [ -n "$(mapped)" ] && command -v pvs >/dev/null; then
      group=$(pvs --noheadings --options vg_name "$device" 2>/dev/null </dev/null | tr -d ' ')
      [ -z "$group" ] || vgchange --activate n "$group" >/dev/null 2>&1 </dev/null
    fi
    case $kind in part) set -- "$@" "$device" ;; esac
  done <<END
$above
END
  for device in $(printf '%s\n' "$above" | awk '$2 ~ /^raid/ { print $1 }' | sort -u); do
    mdadm --stop "$device" >/dev/null 2>&1 </dev/null
  done
  for device in "$@"; do wipefs --all --force "$device" >/dev/null 2>&1; done
}

mapped() { # the devices of the mapper: without one no volume group is active
  for each in "$OCB_SYS"/block/dm-*; do
    if [ -e "$each" ]; then echo "$each"; fi
  done
}

release_disk() { # release_disk DISK: as let_go, and its own signatures
  let_go "$1"
  run wipefs --all --force "$1"
}

make_partitions() { # make_partitions DISK: a new table on a released disk. One sgdisk: each start of it sleeps for a second
  swap=$(layout swap_mib 0) type=8300
  [ "$(layout lvm false)" = false ] || type=8e00
  [ "$(layout raid1 false)" = false ] || type=fd00
  set -- "$1" --clear --new=1:1M:+1M --typecode=1:ef02 --new=2:0:+${ESP_MIB}M --typecode=2:ef00
  if [ "$swap" -gt 0 ] && [ "$type" = 8300 ]; then
    set -- "$@" "--new=4:-${swap}M:0" --typecode=4:8200
  fi
  disk=$1
  shift
  run sgdisk "$@" "--new=3:0:0" "--typecode=3:$type" "$disk"
  await_partitions "$disk"
}

await_partitions() { # the kernel has read the new table; ten seconds
  partprobe "$1" 2>/dev/null || blockdev --rereadpt "$1" 2>/dev/null
  udevadm settle --timeout=10 2>/dev/null
  tries=20
  until [ -b "$(partition "$1" 3)" ]; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || die "the kernel does not show the partitions of $1 after ten seconds"
    sleep 0.5
  done
}

# make_file_systems DISK...: sets $root_device and $swap_device (empty without), and mounts the root at $OCB_TARGET
make_file_systems() {
  swap_device=
  for disk in "$@"; do run mkfs.vfat -F 32 -n ESP "$(partition "$disk" 2)"; done
  root_device=$(partition "$1" 3)
  if [ $# = 2 ]; then
    run mdadm --create /dev/md0 --run --level=1 --raid-devices=2 --metadata=1.2 "$root_device" "$(partition "$2" 3)"
    root_device=/dev/md0
  fi
  if [ "$(layout lvm false)" != false ]; then
    make_volumes
  elif [ -b "$(partition "$1" 4)" ]; then
    swap_device=$(partition "$1" 4)
  fi
  if [ -n "$swap_device" ]; then run mkswap "$swap_device"; fi
  case $(layout filesystem ext4) in
  ext4) run mkfs.ext4 -q -F -L root "$root_device" ;;
  xfs) run mkfs.xfs -q -f -L root "$root_device" ;;
  *) die "the order's layout.filesystem must be ext4 or xfs" ;;
  esac
  mkdir -p "$OCB_TARGET"
  run mount "$root_device" "$OCB_TARGET"
}

make_volumes() { # a volume group on the root's partition or array
  run pvcreate --yes --force --force "$root_device"
  run vgcreate --yes $GROUP "$root_device"
  if [ "$(layout swap_mib 0)" -gt 0 ]; then
    run lvcreate --yes --wipesignatures y --size "$(layout swap_mib 0)m" --name swap $GROUP
    swap_device=/dev/$GROUP/swap
  fi
  run lvcreate --yes --wipesignatures y --extents 100%FREE --name root $GROUP
  root_device=/dev/$GROUP/root
}

uuid_of() { blkid --probe --output value --match-tag UUID "$1"; }

release_target() { # everything is on the disks when this returns
  sync
  run umount --recursive "$OCB_TARGET"
  if [ "$root_device" = /dev/$GROUP/root ]; then run vgchange --activate n $GROUP; fi
  if [ -e /dev/md0 ]; then mdadm --stop /dev/md0 >/dev/null 2>&1; fi
  sync
}
