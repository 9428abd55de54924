#!/bin/sh
# Greets whoever logs in.
set -eu
. "$OCB_LIBRARY"

text=$(read_attribute motd/text)
lines "$text" | put "$root/etc/motd"
