#!/bin/sh
# Counts the network cards with a link of the wanted speed. In our environment it sets each card up before; else it changes nothing.
#
# A card of a virtual machine may have a link and no speed: it counts.
set -eu
. "$OCB_LIBRARY"

links=$(read_attribute commissioning/network/links)
speed=$(read_attribute commissioning/network/speed)
passed=$(read_attribute commissioning/network/passed "")
[ -z "$root" ] || exit 0 # below another root there is no machine
sys=${OCB_SYS:-/sys} proc=${OCB_PROC:-/proc}
machine=$({ tr -d '\000-\037' <"$sys/class/dmi/id/product_uuid"; } 2>/dev/null | cut -c1-64) || machine=

# settle TEXT: the end. A machine that passed in our environment does not fail on its installed system, which may lack
# programs and links: there a run prints TEXT, and a check reports it.
settle() {
  where=system
  ! grep -q 'ocb\.mode=' "$proc/cmdline" 2>/dev/null || where=environment
  made="$where ${machine:-unknown}"
  if [ -n "$said" ] && checking; then
    drifted "$said"
  elif [ -n "$said" ] && [ "$passed" = "environment ${machine:-unknown}" ] && [ $where = system ]; then
    echo "$said; the machine passed before its installation"
    write_attribute commissioning/network/passed "$passed"
  elif [ -n "$said" ]; then
    echo "$said" >&2
    exit 1
  else
    echo "$1"
    [ "$passed" != "environment ${machine:-unknown}" ] || made=$passed
    checking || write_attribute commissioning/network/passed "$made"
  fi
}

raise() { # in our environment: each card is up, and has some seconds for its link
  for card in "$sys"/class/net/*; do
    [ ! -e "$card/device" ] || ip link set dev "${card##*/}" up || true
  done
  sleep 5
}

if ! checking && grep -q 'ocb\.mode=' "$proc/cmdline" 2>/dev/null; then raise; fi
said= count=0 seen=
for card in "$sys"/class/net/*; do
  [ -e "$card/device" ] || continue
  name=${card##*/}
  if [ "$(cat "$card/carrier" 2>/dev/null)" != 1 ]; then # unreadable while the card is down
    seen="${seen:+$seen, }$name: no link"
    continue
  fi
  mbits=$(cat "$card/speed" 2>/dev/null) || mbits=
  case $mbits in
  '' | -* | *[!0-9]*)
    seen="${seen:+$seen, }$name: a link of unknown speed"
    count=$((count + 1))
    ;;
  *)
    seen="${seen:+$seen, }$name: $mbits Mbit/s"
    [ "$mbits" -lt "$speed" ] || count=$((count + 1))
    ;;
  esac
done

if [ "$count" -lt "$links" ]; then
  said="$count network cards have a link of $speed Mbit/s or more, and $links must: ${seen:-there is none}; look at cables and switch"
fi
settle "${seen:-no network card}"
