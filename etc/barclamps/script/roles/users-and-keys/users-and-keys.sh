#!/bin/sh
# Makes accounts, and lets people in by their keys. Below another root: only their keys.
set -eu
. "$OCB_LIBRARY"

for user in $(read_attribute --keys users/list); do
  name=$(read_attribute "users/list/$user/name")
  if [ -z "$root" ] && ! getent passwd "$name" >/dev/null; then
    useradd --create-home --shell "$(read_attribute "users/list/$user/shell" /bin/sh)" "$name"
    echo "made account $name"
  fi
  home=$root/home/$name
  [ -n "$root" ] || home=$(getent passwd "$name" | cut -d: -f6)
  if [ -L "$home/.ssh" ]; then
    echo "$home/.ssh is a link; nothing is written through it" >&2
    exit 1
  fi
  mkdir -p "$home/.ssh"
  chmod 700 "$home/.ssh"
  items "users/list/$user/keys" | put "$home/.ssh/authorized_keys" 600
  [ -n "$root" ] || chown -R "$name:" "$home/.ssh"
done
