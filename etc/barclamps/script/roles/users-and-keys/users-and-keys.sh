#!/bin/sh
# Makes accounts, and lets people in by their keys. Below another root: only their keys.
set -eu
root=${OCB_ROOT:-$(read_attribute ocb/root /)}
root=${root%/}

put() { # put FILE [MODE]: make FILE what stdin says; left alone where it says so already
  mkdir -p "${1%/*}"
  cat >"$1.new.$$"
  chmod "${2:-644}" "$1.new.$$"
  if cmp -s "$1.new.$$" "$1"; then rm -f "$1.new.$$"; else mv -f "$1.new.$$" "$1" && echo "wrote $1"; fi
}

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
  for key in $(read_attribute --keys "users/list/$user/keys" 2>/dev/null); do
    read_attribute "users/list/$user/keys/$key"
  done | put "$home/.ssh/authorized_keys" 600
  [ -n "$root" ] || chown -R "$name:" "$home/.ssh"
done
