#!/bin/sh
# Publishes the boot documents that the annealer sends: host entries, options and boot scripts.
#
# A document is activated whole or not: its files are made aside, and moved into place. Files of a document that it has no more are
# removed. The digests are given back after dnsmasq has read the files. So a publication never says too much.
set -eu
. "$OCB_LIBRARY"
umask 022

top=$root$(read_attribute provisioner/root)
documents=$(read_attribute provisioner/documents "")
functions=$top/state/functions.sh
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
publish "$documents" opts.d
