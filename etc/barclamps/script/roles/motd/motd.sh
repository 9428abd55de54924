#!/bin/sh
# Writes the text that a login shows.
set -eu
. "$OCB_LIBRARY"

text=$(read_attribute motd/text)
lines "$text" | put "$root/etc/motd"
