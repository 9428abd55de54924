#!/bin/sh
# Collects the logs of other nodes with rsyslog, and tells them where.
set -eu
. "$OCB_LIBRARY"

port=$(read_attribute logging/port)
mkdir -p "$root/var/log/remote"
{
  echo 'module(load="imtcp")'
  echo 'template(name="ocb-by-host" type="string" string="/var/log/remote/%HOSTNAME%.log")'
  echo 'ruleset(name="ocb") { action(type="omfile" dynaFile="ocb-by-host") }'
  echo "input(type=\"imtcp\" port=\"$port\" ruleset=\"ocb\")"
} | put_for rsyslog.service "$root/etc/rsyslog.d/10-nodepool-ocb-server.conf"
write_attribute "logging/servers/$OCB_NODE" "$OCB_NODE:$port"
