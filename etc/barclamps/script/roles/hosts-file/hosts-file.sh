#!/bin/sh
# Keeps our block of lines in /etc/hosts; the other lines stay.
set -eu
. "$OCB_LIBRARY"

file=$root/etc/hosts
entries=$(items hosts/entries)
others=
begin="# begin of nodepool-ocb" end="# end of nodepool-ocb"
[ ! -e "$file" ] || others=$(sed "/^$begin\$/,/^$end\$/d" "$file")
lines "$others" "$begin" "$entries" "$end" | put "$file"
