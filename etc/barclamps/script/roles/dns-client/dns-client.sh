#!/bin/sh
# Says whom to ask for names.
set -eu
root=${OCB_ROOT:-$(read_attribute ocb/root /)}
root=${root%/}

put() { # put FILE [MODE]: make FILE what stdin says; left alone where it says so already
  mkdir -p "${1%/*}"
  cat >"$1.new.$$"
  chmod "${2:-644}" "$1.new.$$"
  if cmp -s "$1.new.$$" "$1"; then rm -f "$1.new.$$"; else mv -f "$1.new.$$" "$1" && echo "wrote $1"; fi
}

items() { # items PLACE: the items of a list of texts, one a line
  for item in $(read_attribute --keys "$1"); do read_attribute "$1/$item"; done
}

servers=$(items dns/servers)
if [ -z "$servers" ]; then
  echo "no dns_servers are set; /etc/resolv.conf stays as it is"
  exit 0
fi
search=$(items dns/search | tr '\n' ' ')
{
  [ -z "$search" ] || echo "search ${search% }"
  printf 'nameserver %s\n' $servers
} | put "$root/etc/resolv.conf"
