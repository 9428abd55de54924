#!/bin/sh
# Notes the members: all of them are ACTIVE when this runs.
set -eu
. "$OCB_LIBRARY"

read_attribute --keys quorum/members >/dev/null
items quorum/members | put "$root/var/lib/nodepool-ocb/quorum/members"
