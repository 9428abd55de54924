# shellcheck shell=sh
# The image on its way to the disk, and the comparison after the writing.
#
# A tar lies on the new root until its files are compared with it. Of a raw image the first MiB is written last: a machine boots
# no image with a wrong SHA-256.

HEAD_BYTES=1048576

tar_sink() { # appends a piece to the tar on the new root
  cat "$1" >>"$OCB_TARGET/.ocb-image" 2>"$OCB_RUN/sink"
}

raw_sink() { # a piece to the disk; the first MiB of the image to memory
  if [ "$2" = 0 ]; then
    head -c $HEAD_BYTES "$1" >"$OCB_RUN/head"
    dd if=/dev/zero of="$chosen" bs=$HEAD_BYTES count=1 conv=notrunc 2>"$OCB_RUN/sink" || return 1
    dd if="$1" of="$chosen" bs=$HEAD_BYTES skip=1 seek=1 conv=notrunc 2>"$OCB_RUN/sink"
  else
    dd if="$1" of="$chosen" bs=$HEAD_BYTES seek=$(($2 / HEAD_BYTES)) conv=notrunc 2>"$OCB_RUN/sink"
  fi
}

write_tar() { # unpacks the fetched tar, and compares each file on the disk with it
  image=$OCB_TARGET/.ocb-image
  tar_flags="--numeric-owner --xattrs --xattrs-include=* --acls"
  set -f
  # shellcheck disable=SC2086
  run tar $tar_flags --extract --preserve-permissions --file "$image" --directory "$OCB_TARGET"
  say "unpacked; comparing the disk with the image"
  report written 100
  forget_cache
  # shellcheck disable=SC2086
  run tar $tar_flags --compare --file "$image" --directory "$OCB_TARGET"
  set +f
  rm -f "$image"
  say "each file on the disk is that of the image"
}

write_head() { # write_head SIZE SUM: the first MiB, then the whole image is read back
  run dd if="$OCB_RUN/head" of="$chosen" bs=$HEAD_BYTES conv=notrunc,fsync
  sync
  report written 100
  forget_cache
  found=$(head -c "$1" "$chosen" | sha256sum | cut -d' ' -f1)
  if [ "$found" != "$2" ]; then
    dd if=/dev/zero of="$chosen" bs=$HEAD_BYTES count=1 conv=notrunc,fsync 2>/dev/null
    die "the disk returned other bytes than were written: SHA-256 $found instead of $2; nothing boots from this disk"
  fi
}

forget_cache() { # the next reading is from the disk
  sync
  echo 3 2>/dev/null >"$OCB_PROC/sys/vm/drop_caches" || :
}

mount_raw_root() { # the partition of a written raw image that holds a system
  sgdisk --move-second-header "$chosen" >/dev/null 2>&1 || :
  partprobe "$chosen" 2>/dev/null || blockdev --rereadpt "$chosen" 2>/dev/null
  udevadm settle --timeout=10 2>/dev/null
  mkdir -p "$OCB_TARGET"
  for part in $(lsblk --noheadings --list --paths --output NAME,TYPE "$chosen" | awk '$2 == "part" || $2 == "disk" { print $1 }'); do
    mount "$part" "$OCB_TARGET" 2>/dev/null || continue
    if [ -e "$OCB_TARGET/etc/os-release" ] || [ -L "$OCB_TARGET/etc/os-release" ]; then
      root_device=$part
      return
    fi
    umount "$OCB_TARGET"
  done
  die "the raw image has no partition with /etc/os-release"
}
