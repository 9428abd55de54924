#!/bin/sh
# Sends the node's log to the cluster's servers.
#
# A check looks at the file, and that rsyslog runs. It does not ask rsyslog which settings it has read.
set -eu
. "$OCB_LIBRARY"

file=$root/etc/rsyslog.d/90-nodepool-ocb-client.conf
servers=$(items logging/servers)
if [ -z "$servers" ]; then
  echo "the cluster has no log server"
  [ ! -e "$file" ] && [ ! -L "$file" ] || echo "# no log server" | put_for rsyslog.service "$file"
  exit 0
fi
for address in $servers; do
  echo "*.* action(type=\"omfwd\" target=\"${address%:*}\" port=\"${address##*:}\" protocol=\"tcp\")"
done | put_for rsyslog.service "$file"
runs rsyslog.service
