# shellcheck shell=sh
# The network of the installed system: files of systemd-networkd from the order, unless cloud-init configures it by its seed.

settle_network() {
  [ -n "$(ordered network)" ] || return 0
  if [ -n "$(ordered nocloud.network-config)" ] && [ -x "$OCB_TARGET/usr/bin/cloud-init" ]; then return 0; fi
  [ -x "$OCB_TARGET/lib/systemd/systemd-networkd" ] || [ -x "$OCB_TARGET/usr/lib/systemd/systemd-networkd" ] ||
    die "the image has neither cloud-init nor systemd-networkd: its network cannot be configured"
  ordered network | jq --raw-output --from-file "$here/agent/networkd.jq" >"$OCB_RUN/networkd" 2>"$OCB_RUN/run" ||
    die "the order's network is wrong: $(tail -n 1 "$OCB_RUN/run")"
  file=
  while IFS= read -r line; do
    case $line in
    "# file "*)
      file=etc/systemd/network/${line#"# file "}
      : | put "$file" 644
      ;;
    *) printf '%s\n' "$line" >>"$OCB_TARGET/$file" ;;
    esac
  done <"$OCB_RUN/networkd"
  mkdir -p "$OCB_TARGET/etc/systemd/system/multi-user.target.wants"
  ln -sf /lib/systemd/system/systemd-networkd.service "$OCB_TARGET/etc/systemd/system/multi-user.target.wants/"
  settle_resolver
}

settle_resolver() { # the name servers of the order, where nothing else writes resolv.conf
  [ ! -e "$OCB_TARGET/lib/systemd/systemd-resolved" ] && [ ! -L "$OCB_TARGET/etc/resolv.conf" ] || return 0
  found=$(ordered nameservers)
  [ -z "$found" ] || printf '%s\n' "$found" | put etc/resolv.conf 644
}
