#!/bin/sh
# Sends the node's log to the cluster's servers.
set -eu
root=${OCB_ROOT:-$(read_attribute ocb/root /)}
root=${root%/}

put() { # put FILE [MODE]: make FILE what stdin says; left alone where it says so already
  mkdir -p "${1%/*}"
  cat >"$1.new.$$"
  chmod "${2:-644}" "$1.new.$$"
  if cmp -s "$1.new.$$" "$1"; then rm -f "$1.new.$$"; else mv -f "$1.new.$$" "$1" && echo "wrote $1"; fi
}

file=$root/etc/rsyslog.d/90-nodepool-ocb-client.conf
servers=$(read_attribute --keys logging/servers 2>/dev/null || :)
if [ -z "$servers" ]; then
  rm -f "$file"
  echo "the cluster has no log server"
  exit 0
fi
said=$(
  for each in $servers; do
    address=$(read_attribute "logging/servers/$each")
    echo "*.* action(type=\"omfwd\" target=\"${address%:*}\" port=\"${address##*:}\" protocol=\"tcp\")"
  done | put "$file"
)
[ -z "$said" ] || echo "$said"
if [ -z "$root" ] && [ -n "$said" ] && command -v systemctl >/dev/null; then
  systemctl try-restart rsyslog.service
fi
