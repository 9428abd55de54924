#!/bin/sh
# Sets the time zone.
set -eu
root=${OCB_ROOT:-$(read_attribute ocb/root /)}
root=${root%/}

put() { # put FILE [MODE]: make FILE what stdin says; left alone where it says so already
  mkdir -p "${1%/*}"
  cat >"$1.new.$$"
  chmod "${2:-644}" "$1.new.$$"
  if cmp -s "$1.new.$$" "$1"; then rm -f "$1.new.$$"; else mv -f "$1.new.$$" "$1" && echo "wrote $1"; fi
}

zone=$(read_attribute timezone/name)
if [ ! -e "/usr/share/zoneinfo/$zone" ] && [ -z "$root" ]; then
  echo "there is no time zone $zone on this machine; install tzdata, or set attribute timezone to another" >&2
  exit 1
fi
echo "$zone" | put "$root/etc/timezone"
[ "$(readlink "$root/etc/localtime")" = "/usr/share/zoneinfo/$zone" ] ||
  ln -sfn "/usr/share/zoneinfo/$zone" "$root/etc/localtime"
