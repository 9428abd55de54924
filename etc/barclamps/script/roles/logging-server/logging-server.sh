#!/bin/sh
# Collects the logs of other nodes with rsyslog, and tells them where.
#
# A check looks at the file and the directory, and that rsyslog runs. It does not try the port.
set -eu
. "$OCB_LIBRARY"

port=$(read_attribute logging/port)
put_directory "$root/var/log/remote" # with the owner that rsyslog has here
{
  echo 'module(load="imtcp")'
  echo 'template(name="ocb-by-host" type="string" string="/var/log/remote/%HOSTNAME%.log")'
  echo 'ruleset(name="ocb") { action(type="omfile" dynaFile="ocb-by-host") }'
  echo "input(type=\"imtcp\" port=\"$port\" ruleset=\"ocb\")"
} | put_for rsyslog.service "$root/etc/rsyslog.d/10-nodepool-ocb-server.conf"
runs rsyslog.service
write_attribute "logging/servers/$OCB_NODE" "$OCB_NODE:$port"
