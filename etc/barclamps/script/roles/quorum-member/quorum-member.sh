#!/bin/sh
# Gives the name and address of this member to the others.
set -eu
. "$OCB_LIBRARY"

echo "$OCB_NODE" | put "$root/var/lib/nodepool-ocb/quorum/member"
write_attribute "quorum/members/$OCB_NODE" "$OCB_NODE"
