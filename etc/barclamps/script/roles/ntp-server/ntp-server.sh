#!/bin/sh
# Serves time to the cluster with chrony, and tells its name to the clients.
set -eu
. "$OCB_LIBRARY"

{
  items ntp/upstream | sed 's/^/pool /; s/$/ iburst/'
  echo "allow $(read_attribute ntp/allow)"
  echo "local stratum 10"
} | put_for chrony.service "$root/etc/chrony/conf.d/nodepool-ocb.conf" try-reload-or-restart
write_attribute "ntp/servers/$OCB_NODE" "$OCB_NODE"
