#!/bin/sh
# Notes the members: all of them are ACTIVE when this runs.
set -eu
root=${OCB_ROOT:-$(read_attribute ocb/root /)}
root=${root%/}

put() { # put FILE [MODE]: make FILE what stdin says; left alone where it says so already
  mkdir -p "${1%/*}"
  cat >"$1.new.$$"
  chmod "${2:-644}" "$1.new.$$"
  if cmp -s "$1.new.$$" "$1"; then rm -f "$1.new.$$"; else mv -f "$1.new.$$" "$1" && echo "wrote $1"; fi
}

members=$(read_attribute --keys quorum/members)
for each in $members; do
  read_attribute "quorum/members/$each"
done | put "$root/var/lib/nodepool-ocb/quorum/members"
