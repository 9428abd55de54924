#!/bin/sh
# read_attribute [--keys] PATH [DEFAULT]: print one attribute of this run.
#
# PATH names keys and list places from the top: a/b/0. In a key, "/" is written %2F and "%" is written %25.
# Text is printed as it is; numbers, true, false and null as JSON has them. --keys lists the keys of a map or the places of a list.
# Exit 1: there is no such attribute, and no DEFAULT; 2: it is a map or a list (or, with --keys, is not).
set -u
keys=
[ "${1-}" = --keys ] && keys=1 && shift
[ $# -ge 1 ] && [ -f "${OCB_RUN-}.tree" ] || { echo "usage, in a script of a role: read_attribute [--keys] PATH [DEFAULT]" >&2; exit 64; }
tab='	' newline='
'
case $1 in *"$newline"* | *"$tab"*) line= ;; *) line=$(LC_ALL=C grep -a -F -m 1 -e "$tab${1#/}$tab" "$OCB_RUN.tree") ;; esac
if [ -z "$line" ]; then
  [ $# -ge 2 ] && printf '%s\n' "$2" && exit 0
  echo "read_attribute: no attribute $1" >&2
  exit 1
fi
set -f
IFS=$tab # by fields: the removal of a long prefix takes a shell quadratic time
for field in $line; do :; done
value=${field#?}
case $field in t*) kind=t ;; j*) kind=j ;; m*) kind=m ;; l*) kind=l ;; *) kind= ;; esac
case $kind$keys in
  t) printf '%b\n' "$value" ;;
  j) printf '%s\n' "$value" ;;
  m | l) echo "read_attribute: $1 is a map or a list; see: read_attribute --keys $1" >&2; exit 2 ;;
  m1 | l1) [ -z "$value" ] || printf '%s\n' "$value" | tr / '\n' ;;
  *) echo "read_attribute: $1 is not a map or a list" >&2; exit 2 ;;
esac
