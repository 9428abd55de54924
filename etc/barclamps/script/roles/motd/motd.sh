#!/bin/sh
# Greets whoever logs in.
set -eu
. "$OCB_LIBRARY"

read_attribute motd/text | put "$root/etc/motd"
