#!/bin/sh
# Publishes the documents that the annealer sends. The role dns-database has this script, too: it publishes names.
#
# A document is activated whole or not: its files are made aside, and moved into place. Files of a document that it has no more are
# removed. The digests are given back after dnsmasq has read the files. So a publication never says too much. A run of
# provisioner-dhcp-database without documents looks for servers of DHCP that are not ours.
set -eu
. "$OCB_LIBRARY"
umask 022

functions=$root$(read_attribute provisioner/root)/state/functions.sh
documents=$(read_attribute provisioner/documents "")
if [ ! -e "$functions" ]; then
  drifted "$functions does not exist: run provisioner-server on this node again"
  checking && exit 0
  echo "$functions does not exist: run provisioner-server on this node again" >&2
  exit 1
fi
. "$functions"
if checking; then
  [ -n "$root" ] || alive dnsmasq || drifted "dnsmasq does not run"
  exit 0
fi
case $OCB_ROLE in
  dns-database) publish "$documents" names.d ;;
  *)
    publish "$documents" opts.d
    if [ -z "$documents" ]; then listen; fi
    ;;
esac
