#!/bin/sh
# Tells the other members who this one is.
set -eu
root=${OCB_ROOT:-$(read_attribute ocb/root /)}
root=${root%/}
name=${OCB_NODE:-$(hostname -f 2>/dev/null || hostname)}

put() { # put FILE [MODE]: make FILE what stdin says; left alone where it says so already
  mkdir -p "${1%/*}"
  cat >"$1.new.$$"
  chmod "${2:-644}" "$1.new.$$"
  if cmp -s "$1.new.$$" "$1"; then rm -f "$1.new.$$"; else mv -f "$1.new.$$" "$1" && echo "wrote $1"; fi
}

echo "$name" | put "$root/var/lib/nodepool-ocb/quorum/member"
write_attribute "quorum/members/$name" "$name"
