#!/bin/sh
# Tells what the machine is. Writes nothing on it.
set -eu
. "$OCB_LIBRARY"

write_attribute inventory/kernel "$(uname -r)"
write_attribute inventory/architecture "$(uname -m)"
write_attribute --json inventory/cpus "$(getconf _NPROCESSORS_ONLN)"
while read -r key amount _; do
  [ "$key" != MemTotal: ] || write_attribute --json inventory/memory_mib $((amount / 1024))
done </proc/meminfo
for file in "$root/etc/os-release" "$root/usr/lib/os-release" /etc/os-release; do
  if [ -r "$file" ]; then
    write_attribute inventory/os/name "$(. "$file" && echo "${ID:-unknown}")"
    write_attribute inventory/os/version "$(. "$file" && echo "${VERSION_ID:-}")"
    break
  fi
done
