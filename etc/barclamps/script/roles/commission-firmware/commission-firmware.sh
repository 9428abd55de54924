#!/bin/sh
# Compares the firmware of the machine with the versions that the site permits. Writes nothing on it.
set -eu
. "$OCB_LIBRARY"

mode=$(read_attribute commissioning/firmware/mode)
products=$(read_attribute --keys commissioning/firmware/versions)
passed=$(read_attribute commissioning/firmware/passed "")
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
    write_attribute commissioning/firmware/passed "$passed"
  elif [ -n "$said" ]; then
    echo "$said" >&2
    exit 1
  else
    echo "$1"
    [ "$passed" != "environment ${machine:-unknown}" ] || made=$passed
    checking || write_attribute commissioning/firmware/passed "$made"
  fi
}

dmi() { { tr -d '\000-\037' <"$sys/class/dmi/id/$1"; } 2>/dev/null | cut -c1-100 | sed 's/^ *//; s/ *$//'; }

said=
product=$(dmi product_name) version=$(dmi bios_version)
booted=bios
[ ! -d "$sys/firmware/efi" ] || booted=uefi
if [ -n "$mode" ] && [ "$mode" != "$booted" ]; then
  said="the machine booted by $booted, and mode is $mode: change its firmware settings"
fi
if [ -n "$products" ]; then
  key=$(printf '%s\n' "${product:-unknown}" | sed 's/%/%25/g; s,/,%2F,g')
  permitted=$(read_attribute "commissioning/firmware/versions/$key" "")
  if [ -z "$permitted" ]; then
    said="${said:+$said; }no version is named for product ${product:-unknown}, which has $version: add it to firmware_versions"
  else
    case $version in
    $permitted) ;;
    *) said="${said:+$said; }the firmware of ${product:-unknown} has version ${version:-unknown}, and $permitted is permitted: update it" ;;
    esac
  fi
fi

settle "firmware $booted, version ${version:-unknown} of product ${product:-unknown}"
