# shellcheck shell=sh
# The identity of the installed system: host key, logins, name, token, epoch, cloud-init's seed, fstab.

put() { # put FILE MODE: standard input as a file of the new root. One program: each start takes an emulated CPU a tenth of a second
  install -D -m "$2" /dev/stdin "$OCB_TARGET/$1" || die "writing $1 failed"
}

settle_system() {
  settle_ssh
  settle_name
  settle_token
  settle_epoch "$(ordered epoch)"
  settle_seed
  tr -d '-' <"$OCB_PROC/sys/kernel/random/uuid" | put etc/machine-id 444
}

settle_ssh() { # the host key that this boot reported, and no other
  rm -f "$OCB_TARGET"/etc/ssh/ssh_host_*
  put etc/ssh/ssh_host_ed25519_key 600 <"$OCB_HOST_KEY"
  put etc/ssh/ssh_host_ed25519_key.pub 644 <"$OCB_HOST_KEY.pub"
  mkdir -p "$OCB_TARGET/root/.ssh" && chmod 700 "$OCB_TARGET/root" "$OCB_TARGET/root/.ssh"
  {
    cat "$OCB_ETC/authorized_keys" 2>/dev/null # of the annealers
    ordered authorized_keys
  } | put root/.ssh/authorized_keys 600
}

settle_name() {
  hostname=$(ordered hostname)
  [ -n "$hostname" ] || hostname=$node
  echo "${hostname%%.*}" | put etc/hostname 644
  {
    echo "127.0.0.1 localhost"
    echo "127.0.1.1 $hostname ${hostname%%.*}"
    echo "::1 localhost ip6-localhost ip6-loopback"
  } | put etc/hosts 644
}

settle_token() { # for the machine's own reports, with the certificate and the addresses of the API
  put etc/nodepool-ocb/token 600 <"$OCB_OWN/token"
  chmod 700 "$OCB_TARGET/etc/nodepool-ocb"
  put etc/nodepool-ocb/ca.pem 644 <"$OCB_ETC/ca.pem"
  servers | put etc/nodepool-ocb/api 644
}

settle_epoch() { # settle_epoch EPOCH: a stale annealer stays fenced on the new disk: runner.sh refuses each lower epoch
  state=$(ordered state_dir) epoch=$1
  case $state in "~/"*) state=root/${state#"~/"} ;; esac
  if [ -z "$state" ] || [ -z "$epoch" ]; then die "the order lacks state_dir or epoch"; fi
  rm -rf "${OCB_TARGET:?}/$state"
  key=$(ordered epoch_key)
  echo "$epoch ${key:--} $epoch" | put "$state/epoch.0" 600
  chmod 700 "$OCB_TARGET/$state"
}

settle_seed() { # NoCloud: read by cloud-init, if the image has it
  for each in meta-data user-data network-config; do
    text=$(ordered "nocloud.$each")
    [ -z "$text" ] || printf '%s\n' "$text" | put "var/lib/cloud/seed/nocloud/$each" 600
  done
}

settle_fstab() { # by UUID, since names of disks change
  {
    echo "UUID=$(uuid_of "$root_device") / $(layout filesystem ext4) errors=remount-ro 0 1" | sed 's/xfs errors=remount-ro/xfs defaults/'
    echo "UUID=$(uuid_of "$(partition "$1" 2)") /boot/efi vfat umask=0077,nofail 0 1"
    [ -z "$swap_device" ] || echo "UUID=$(uuid_of "$swap_device") none swap sw 0 0"
  } | put etc/fstab 644
}
