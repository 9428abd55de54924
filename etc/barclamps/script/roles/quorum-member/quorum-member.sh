#!/bin/sh
# Tells the other members who this one is.
set -eu
. "$OCB_LIBRARY"

echo "$OCB_NODE" | put "$root/var/lib/nodepool-ocb/quorum/member"
write_attribute "quorum/members/$OCB_NODE" "$OCB_NODE"
