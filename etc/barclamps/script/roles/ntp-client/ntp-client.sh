#!/bin/sh
# Keeps the node's time by the cluster's servers, or by others while there are none.
#
# A check looks at the file, and that systemd-timesyncd runs. It does not ask whether the clock is right.
set -eu
. "$OCB_LIBRARY"

servers=$(items ntp/servers)
[ -n "$servers" ] || servers=$(items ntp/fallback)
{
  echo "[Time]"
  echo NTP=$servers
} | put_for systemd-timesyncd.service "$root/etc/systemd/timesyncd.conf.d/nodepool-ocb.conf"
runs systemd-timesyncd.service
