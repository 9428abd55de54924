#!/bin/sh
# Installs packages. Below another root they are listed there: that is no system of its own.
#
# A check names the packages that are not installed. Their versions are no setting of this role.
set -eu
. "$OCB_LIBRARY"

wanted=$(items packages/install)
if [ -z "$wanted" ]; then
  echo "no packages are wanted"
  exit 0
fi
if [ -n "$root" ]; then
  lines "$wanted" | put "$root/var/lib/nodepool-ocb/packages"
  exit 0
fi
if command -v apt-get >/dev/null; then
  installed() { dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | grep -q '^.i'; }
elif command -v dnf >/dev/null; then
  installed() { rpm -q "$1" >/dev/null 2>&1; }
else
  echo "this machine has neither apt nor dnf" >&2
  exit 1
fi
missing=
for package in $wanted; do
  installed "$package" || missing="$missing $package"
done
if [ -z "$missing" ]; then
  exit 0
elif checking; then
  drifted "not installed:$missing"
elif command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get -q update && apt-get -q -y --no-install-recommends install $missing
else
  dnf -q -y install $missing
fi
