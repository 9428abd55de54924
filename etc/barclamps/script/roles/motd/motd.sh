#!/bin/sh
# Greets whoever logs in.
set -eu
root=${OCB_ROOT:-$(read_attribute ocb/root /)}
root=${root%/}

put() { # put FILE [MODE]: make FILE what stdin says; left alone where it says so already
  mkdir -p "${1%/*}"
  cat >"$1.new.$$"
  chmod "${2:-644}" "$1.new.$$"
  if cmp -s "$1.new.$$" "$1"; then rm -f "$1.new.$$"; else mv -f "$1.new.$$" "$1" && echo "wrote $1"; fi
}

read_attribute motd/text | put "$root/etc/motd"
