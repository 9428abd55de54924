#!/bin/sh
# Sends the node's log to the cluster's servers.
set -eu
. "$OCB_LIBRARY"

file=$root/etc/rsyslog.d/90-nodepool-ocb-client.conf
servers=$(items logging/servers)
if [ -z "$servers" ]; then
  echo "the cluster has no log server"
  [ ! -e "$file" ] || echo "# no log server" | put_for rsyslog.service "$file"
  exit 0
fi
for address in $servers; do
  echo "*.* action(type=\"omfwd\" target=\"${address%:*}\" port=\"${address##*:}\" protocol=\"tcp\")"
done | put_for rsyslog.service "$file"
