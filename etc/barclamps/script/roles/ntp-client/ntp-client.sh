#!/bin/sh
# Keeps the node's time by the cluster's servers, or by others while there are none.
set -eu
root=${OCB_ROOT:-$(read_attribute ocb/root /)}
root=${root%/}

put() { # put FILE [MODE]: make FILE what stdin says; left alone where it says so already
  mkdir -p "${1%/*}"
  cat >"$1.new.$$"
  chmod "${2:-644}" "$1.new.$$"
  if cmp -s "$1.new.$$" "$1"; then rm -f "$1.new.$$"; else mv -f "$1.new.$$" "$1" && echo "wrote $1"; fi
}

items() { # items PLACE: the items of a list of texts, one a line
  for item in $(read_attribute --keys "$1"); do read_attribute "$1/$item"; done
}

servers=$(for each in $(read_attribute --keys ntp/servers 2>/dev/null); do read_attribute "ntp/servers/$each"; done)
[ -n "$servers" ] || servers=$(items ntp/fallback)
said=$(
  {
    echo "[Time]"
    echo NTP=$servers
  } | put "$root/etc/systemd/timesyncd.conf.d/nodepool-ocb.conf"
)
[ -z "$said" ] || echo "$said"
if [ -z "$root" ] && [ -n "$said" ] && command -v systemctl >/dev/null; then
  systemctl try-restart systemd-timesyncd.service
fi
