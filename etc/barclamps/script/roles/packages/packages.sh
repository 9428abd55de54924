#!/bin/sh
# Installs packages. Below another root they are listed there: that is no system of its own.
set -eu
. "$OCB_LIBRARY"

wanted=$(items packages/install)
if [ -z "$wanted" ]; then
  echo "no packages are wanted"
  exit 0
fi
if [ -n "$root" ]; then
  mkdir -p "$root/var/lib/nodepool-ocb"
  printf '%s\n' "$wanted" >"$root/var/lib/nodepool-ocb/packages"
elif command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  missing=$(for package in $wanted; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || echo "$package"
  done)
  [ -z "$missing" ] || { apt-get -q update && apt-get -q -y --no-install-recommends install $missing; }
elif command -v dnf >/dev/null; then
  rpm -q $wanted >/dev/null || dnf -q -y install $wanted
else
  echo "this machine has neither apt nor dnf" >&2
  exit 1
fi
