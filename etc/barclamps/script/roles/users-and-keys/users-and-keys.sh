#!/bin/sh
# Makes accounts, and lets people in by their keys. Below another root: only their keys.
#
# A user may put links into the home directory. So all work in it is done with the rights of that user.
# A check looks at the account, its shell where that is given, ~/.ssh and authorized_keys. It does not look at passwords.
set -eu
. "$OCB_LIBRARY"

users=$(read_attribute --keys users/list)
for user in $users; do
  name=$(read_attribute "users/list/$user/name")
  shell=$(read_attribute "users/list/$user/shell" "")
  keys=$(items "users/list/$user/keys")
  home=$root/home/$name
  rights=
  if [ -z "$root" ]; then
    if ! getent passwd "$name" >/dev/null; then
      if checking; then
        drifted "there is no account $name"
        continue
      fi
      useradd --create-home --shell "${shell:-/bin/sh}" "$name"
      echo "made account $name"
    fi
    account=$(getent passwd "$name")
    home=$(echo "$account" | cut -d: -f6)
    rights="as $name"
    if [ -n "$shell" ] && [ "${account##*:}" != "$shell" ]; then
      drifted "the shell of $name is ${account##*:}, and is to be $shell"
      checking || usermod --shell "$shell" "$name"
    fi
  fi
  $rights put_directory "$home/.ssh" 700
  [ ! -L "$home/.ssh" ] || continue # a check has said so
  lines "$keys" | $rights put "$home/.ssh/authorized_keys" 600
done
