#!/bin/sh
# Sets the time zone.
set -eu
. "$OCB_LIBRARY"

zone=$(read_attribute timezone/name)
if [ ! -e "/usr/share/zoneinfo/$zone" ] && [ -z "$root" ]; then
  echo "there is no time zone $zone on this machine; install tzdata, or set attribute timezone to another" >&2
  exit 1
fi
echo "$zone" | put "$root/etc/timezone"
[ "$(readlink "$root/etc/localtime")" = "/usr/share/zoneinfo/$zone" ] ||
  ln -sfn "/usr/share/zoneinfo/$zone" "$root/etc/localtime"
