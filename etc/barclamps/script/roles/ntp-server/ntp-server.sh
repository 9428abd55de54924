#!/bin/sh
# Serves time to the cluster with chrony, and tells its name to the clients.
#
# A check looks at the file, and that chrony runs. It does not ask whether the clock is right.
set -eu
. "$OCB_LIBRARY"

upstream=$(items ntp/upstream)
pools=$(lines "$upstream" | sed 's/^/pool /; s/$/ iburst/')
allowed=$(read_attribute ntp/allow)
{
  lines "$pools"
  echo "allow $allowed"
  echo "local stratum 10"
} | put_for chrony.service "$root/etc/chrony/conf.d/nodepool-ocb.conf" try-reload-or-restart
runs chrony.service
write_attribute "ntp/servers/$OCB_NODE" "$OCB_NODE"
