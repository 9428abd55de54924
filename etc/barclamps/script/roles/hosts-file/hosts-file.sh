#!/bin/sh
# Keeps our block of lines in /etc/hosts; the other lines stay.
set -eu
. "$OCB_LIBRARY"

file=$root/etc/hosts
entries=$(items hosts/entries)
others=
begin="# begin of nodepool-ocb" end="# end of nodepool-ocb"
if [ -e "$file" ]; then
  if [ ! -f "$file" ]; then
    echo "$file is no file; move it away" >&2
    exit 1
  fi
  # Other lines stay only if it is certain which lines are ours.
  marks=$(grep -axF -e "$begin" -e "$end" "$file" | tr '\n' , || true)
  case $marks in
    '' | "$begin,$end,") ;;
    *)
      drifted "$file must have the lines '$begin' and '$end' once each, in this order; it has: ${marks:-none}"
      checking || echo "$file stays as it is: restore the missing line, or remove both" >&2
      checking
      exit
      ;;
  esac
  others=$(sed "/^$begin\$/,/^$end\$/d" "$file")
fi
lines "$others" "$begin" "$entries" "$end" | put "$file"
