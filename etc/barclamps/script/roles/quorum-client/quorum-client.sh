#!/bin/sh
# Notes the members: all of them are ACTIVE when this runs.
set -eu
. "$OCB_LIBRARY"

read_attribute --keys quorum/members >/dev/null
members=$(items quorum/members)
lines "$members" | put "$root/var/lib/nodepool-ocb/quorum/members"
