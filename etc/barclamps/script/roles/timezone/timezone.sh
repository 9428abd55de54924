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
put_link "$root/etc/localtime" "/usr/share/zoneinfo/$zone"
