#!/bin/sh
# Writes the name servers into /etc/resolv.conf.
set -eu
. "$OCB_LIBRARY"

servers=$(items dns/servers)
if [ -z "$servers" ]; then
  echo "no dns_servers are set; /etc/resolv.conf stays as it is"
  exit 0
fi
search=$(items dns/search)
{
  [ -z "$search" ] || echo search $search
  printf 'nameserver %s\n' $servers
} | put "$root/etc/resolv.conf"
