#!/bin/sh
# Sets kernel parameters, now and at every boot.
#
# A check looks at the file, and at the value of each parameter in the running kernel. It names those that cannot be read.
set -eu
. "$OCB_LIBRARY"

file=$root/etc/sysctl.d/90-nodepool-ocb.conf
settings=$(items sysctl/settings)
lines "$settings" | put "$file"
if [ -n "$root" ]; then
  exit 0
elif ! checking; then
  sysctl -q -p "$file"
  exit
fi

words() { # TEXT: with one space between two words
  set -f
  set -- $1
  echo "$*"
}

lines "$settings" | while IFS= read -r setting; do
  key=$(words "${setting%%=*}")
  key=${key#-}
  wanted=$(words "${setting#*=}")
  if now=$(sysctl -n "$key" 2>/dev/null) && [ -n "$now" ]; then
    now=$(words "$now")
    [ "$now" = "$wanted" ] || drifted "$key is $now in the running kernel, and is to be $wanted"
  else
    echo "$key cannot be read: it is not checked"
  fi
done
