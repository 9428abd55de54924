#!/bin/sh
# Sets kernel parameters, now and at every boot.
set -eu
. "$OCB_LIBRARY"

file=$root/etc/sysctl.d/90-nodepool-ocb.conf
settings=$(items sysctl/settings)
lines "$settings" | put "$file"
[ -n "$root" ] || checking || sysctl -q -p "$file"
