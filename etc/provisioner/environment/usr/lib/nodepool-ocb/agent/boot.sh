# shellcheck shell=sh
# The boot loader: GRUB for BIOS and for UEFI, so that the disk boots in either machine. The image's own GRUB, if it has one.
# And the order in which a firmware of UEFI tries its entries.

ENTRY=nodepool-ocb # the name of our entries
ESP_TYPE=c12a7328-f81f-11d2-ba4b-00a0c93ec93b

install_boot_loader() { # install_boot_loader DISK...
  wanted=$(layout boot both) own=$(firmware)
  case $wanted in both | bios | uefi) ;; *) die "the order's layout.boot must be both, bios or uefi" ;; esac
  mkdir -p "$OCB_TARGET/boot/efi"
  for disk in "$@"; do
    if [ "$wanted" != uefi ]; then grub_bios "$disk" || unbootable bios; fi
    if [ "$wanted" != bios ]; then grub_uefi "$disk" || unbootable uefi; fi
  done
  if [ "$(layout lvm false)" != false ] || [ $# = 2 ]; then settle_initrd; fi
  make_menu
  if [ "$wanted" != bios ]; then order_boots "$@"; fi
}

unbootable() { # a firmware without GRUB: a fault only if it is wanted, or this machine's own
  if [ "$wanted" != both ] || [ "$own" = "$1" ]; then die "GRUB for $1 cannot be installed: $(tail -n 2 "$OCB_RUN/run" 2>/dev/null | tr '\n' ' ')"; fi
  say "this disk does not boot by $1: neither the image nor this environment has GRUB for it"
}

inside() { # inside PROGRAM...: of the image, in the new root
  for each in dev proc sys run; do
    mkdir -p "$OCB_TARGET/$each"
    mountpoint -q "$OCB_TARGET/$each" || run mount --bind "/$each" "$OCB_TARGET/$each"
  done
  chroot "$OCB_TARGET" "$@"
}

grub_bios() { # fails if GRUB for BIOS is nowhere
  if [ -x "$OCB_TARGET/usr/sbin/grub-install" ] && [ -d "$OCB_TARGET/usr/lib/grub/i386-pc" ]; then
    inside grub-install --target=i386-pc "$1" >"$OCB_RUN/run" 2>&1
  elif [ -d /usr/lib/grub/i386-pc ]; then
    grub-install --target=i386-pc --boot-directory="$OCB_TARGET/boot" "$1" >"$OCB_RUN/run" 2>&1
  else
    false
  fi
}

grub_uefi() { # also at the path that each firmware tries, so no variable of the firmware is needed
  run mount "$(partition "$1" 2)" "$OCB_TARGET/boot/efi"
  flags="--target=x86_64-efi --no-nvram --force-extra-removable"
  # shellcheck disable=SC2086
  if [ -x "$OCB_TARGET/usr/sbin/grub-install" ] && [ -d "$OCB_TARGET/usr/lib/grub/x86_64-efi" ]; then
    inside grub-install $flags --efi-directory=/boot/efi >"$OCB_RUN/run" 2>&1
  elif [ -d /usr/lib/grub/x86_64-efi ]; then
    grub-install $flags --efi-directory="$OCB_TARGET/boot/efi" --boot-directory="$OCB_TARGET/boot" >"$OCB_RUN/run" 2>&1
  else
    false
  fi
  result=$?
  run umount "$OCB_TARGET/boot/efi"
  return $result
}

# order_boots DISK...: the firmware tries the entry that booted us, so that the next installation can begin; then these disks; then
# its other entries in their order. Else it tries each way of a network boot before the disk. The disks boot without this, too:
# a firmware that refuses is no fault.
order_boots() {
  if [ "$(firmware)" != uefi ]; then return; fi
  efivars=$OCB_SYS/firmware/efi/efivars
  mountpoint -q "$efivars" || mount -t efivarfs efivarfs "$efivars" >"$OCB_RUN/run" 2>&1 || {
    unordered
    return
  }
  boot_entries || return 0
  case " $own_entries " in *" $current "*) current= ;; esac
  if [ -z "$current" ]; then
    echo "it does not say from which entry it booted" >"$OCB_RUN/run"
    unordered
    return
  fi
  others=
  for entry in $sequence; do
    case " $current $own_entries " in *" $entry "*) ;; *) others="$others $entry" ;; esac
  done
  for entry in $own_entries; do efi --delete-bootnum --bootnum "$entry" || return 0; done
  for disk in "$@"; do
    number=$(esp_number "$disk")
    [ -n "$number" ] || continue
    efi --create-only --disk "$disk" --part "$number" --label $ENTRY --loader '\EFI\BOOT\BOOTX64.EFI' || return 0
  done
  boot_entries || return 0
  # shellcheck disable=SC2086 # one word for each entry
  set -- $current $own_entries $others
  entries=$(IFS=, && echo "$*")
  if efi --bootorder "$entries"; then say "boot order: $entries"; fi
}

boot_entries() { # sets $current, $sequence and $own_entries: numbers of four digits
  efi || return 1
  current=$(sed -n 's/^BootCurrent: *//p' "$OCB_RUN/run")
  sequence=$(sed -n 's/^BootOrder: *//p' "$OCB_RUN/run" | tr ',' ' ')
  own_entries=$(sed -n "s/^Boot\([0-9A-F]\{4\}\)[* ] *$ENTRY\($\|[[:space:]].*\)/\1/p" "$OCB_RUN/run" | tr '\n' ' ')
}

efi() { # efi OPTION...: efibootmgr; says why if it fails
  efibootmgr "$@" >"$OCB_RUN/run" 2>&1 || {
    unordered
    return 1
  }
}

unordered() { say "the boot order of the firmware stays: $(tail -n 1 "$OCB_RUN/run")"; }

esp_number() { # esp_number DISK: of its partition for UEFI; empty without one
  esp=$(lsblk --noheadings --list --paths --output NAME,PARTTYPE "$1" 2>/dev/null |
    awk -v type=$ESP_TYPE 'tolower($2) == type { print $1; exit }')
  [ -z "$esp" ] || first_line "$OCB_SYS/class/block/${esp##*/}/partition"
}

settle_initrd() { # volume groups and arrays must be known before the root is mounted
  if [ -e /dev/md0 ]; then
    mkdir -p "$OCB_TARGET/etc/mdadm"
    mdadm --detail --scan >>"$OCB_TARGET/etc/mdadm/mdadm.conf"
  fi
  [ -x "$OCB_TARGET/usr/sbin/update-initramfs" ] || die "the image has no update-initramfs: it cannot boot from LVM or RAID"
  run inside update-initramfs -u -k all
}

make_menu() {
  if [ -x "$OCB_TARGET/usr/sbin/update-grub" ]; then
    run inside update-grub
    return
  fi
  kernel=$(newest 'vmlinu[xz]-*') initrd=$(newest 'initrd.img-*')
  if [ -z "$kernel" ] || [ -z "$initrd" ]; then die "the image has no kernel and initrd in /boot"; fi
  uuid=$(uuid_of "$root_device")
  put boot/grub/grub.cfg 600 <<END
set timeout_style=hidden
set timeout=1
menuentry "Linux" {
  search --no-floppy --fs-uuid --set=root $uuid
  linux /boot/$kernel root=UUID=$uuid ro $(image_arguments)
  initrd /boot/$initrd
}
END
}

image_arguments() { # the kernel arguments that the image has for update-grub, also without that program
  (
    set +u
    for each in "$OCB_TARGET/etc/default/grub" "$OCB_TARGET"/etc/default/grub.d/*.cfg; do
      # shellcheck source=/dev/null
      if [ -r "$each" ]; then . "$each"; fi
    done
    echo "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"
  )
}

newest() { # newest PATTERN: in /boot
  find "$OCB_TARGET/boot" -maxdepth 1 -name "$1" -printf '%f\n' | sort -V | tail -n 1
}
