#!/bin/sh
# Records the facts of the machine. Writes nothing on it. A check compares each fact with that of the newest run.
set -eu
. "$OCB_LIBRARY"

tell() { # [--json] PATH VALUE
  if checking; then
    for path; do :; done # the last argument
    told=$path path=$2
    [ "$1" = --json ] || path=$1
    known=$(read_attribute "$path" "")
    [ "$known" = "$told" ] || drifted "$path is ${told:-empty}, and was ${known:-empty} at the newest run"
  else
    write_attribute "$@"
  fi
}

tell inventory/kernel "$(uname -r)"
tell inventory/architecture "$(uname -m)"
tell --json inventory/cpus "$(getconf _NPROCESSORS_ONLN)"
while read -r key amount _; do
  [ "$key" != MemTotal: ] || tell --json inventory/memory_mib $((amount / 1024))
done </proc/meminfo
for file in "$root/etc/os-release" "$root/usr/lib/os-release" /etc/os-release; do
  if [ -r "$file" ]; then
    tell inventory/os/name "$(. "$file" && echo "${ID:-unknown}")"
    tell inventory/os/version "$(. "$file" && echo "${VERSION_ID:-}")"
    break
  fi
done
