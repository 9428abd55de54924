#!/bin/sh
# write_attribute [--json] PATH [VALUE]: give one attribute back; without VALUE it is read from stdin, kept out of sight of ps.
#
# VALUE is text and stays text, also if it looks like a number; with --json it is JSON and keeps its type. PATH as in read_attribute;
# maps on the way are made, a list takes an existing place or the next. The last of several writes counts.
set -u
umask 077
kind=t
[ "${1-}" = --json ] && kind=j && shift
case $# in
  1) value=$(cat) ;;
  2) value=$2 ;;
  *) echo "usage: write_attribute [--json] PATH [VALUE]" >&2; exit 64 ;;
esac
newline='
'
case ${1#/} in '' | *"$newline"*) echo "write_attribute: no path can be: $1" >&2; exit 64 ;; esac
size=$(($(printf %s "$value" | wc -c)))
exec 9>>"$OCB_RUN.written" && flock 9 && printf '%s %s %s\n%s\n' "$kind" "$size" "${1#/}" "$value" >&9
