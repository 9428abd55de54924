#!/bin/sh
# Makes accounts, and lets people in by their keys. Below another root: only their keys.
set -eu
. "$OCB_LIBRARY"

users=$(read_attribute --keys users/list)
for user in $users; do
  name=$(read_attribute "users/list/$user/name")
  shell=$(read_attribute "users/list/$user/shell" /bin/sh)
  keys=$(items "users/list/$user/keys")
  if [ -z "$root" ] && ! getent passwd "$name" >/dev/null; then
    useradd --create-home --shell "$shell" "$name"
    echo "made account $name"
  fi
  home=$root/home/$name
  if [ -z "$root" ]; then
    account=$(getent passwd "$name")
    home=$(echo "$account" | cut -d: -f6)
  fi
  if [ -L "$home/.ssh" ]; then
    echo "$home/.ssh is a link; nothing is written through it" >&2
    exit 1
  fi
  mkdir -p "$home/.ssh"
  chmod 700 "$home/.ssh"
  lines "$keys" | put "$home/.ssh/authorized_keys" 600
  [ -n "$root" ] || chown -R "$name:" "$home/.ssh"
done
