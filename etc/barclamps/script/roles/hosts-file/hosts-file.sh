#!/bin/sh
# Keeps our block of lines in /etc/hosts; the other lines stay.
set -eu
. "$OCB_LIBRARY"

file=$root/etc/hosts
begin="# begin of nodepool-ocb" end="# end of nodepool-ocb"
{
  [ ! -e "$file" ] || sed "/^$begin\$/,/^$end\$/d" "$file"
  echo "$begin"
  items hosts/entries
  echo "$end"
} | put "$file"
