#!/bin/sh
# Judges one part of the machine: its disks, its network cards or its firmware, as the name of the role says.
#
# Disks: reads SMART of each disk that is not removable, and compares it with bounds; no disk is written. smartctl's JSON is
# read by jq; the environment for discovery has both.
# Network: counts the cards with a link of the wanted speed. In our environment it sets each card up before; else it changes
# nothing. A card of a virtual machine may have a link and no speed: it counts.
# Firmware: compares its version with those that the site permits; writes nothing on the machine.
set -eu
. "$OCB_LIBRARY"

part=${OCB_ROLE#commission-}
passed=$(read_attribute "commissioning/$part/passed" "")
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
    write_attribute "commissioning/$part/passed" "$passed"
  elif [ -n "$said" ]; then
    echo "$said" >&2
    exit 1
  else
    echo "$1"
    [ "$passed" != "environment ${machine:-unknown}" ] || made=$passed
    checking || write_attribute "commissioning/$part/passed" "$made"
  fi
}

said=
fault() { # TEXT
  said=${said:+$said; }$1
}

# -- disks --

whole() { # the disks of this machine, by name
  for block in "$sys"/block/*; do
    if [ -e "$block/device" ] && [ "$(cat "$block/removable" 2>/dev/null)" != 1 ] && [ "$(cat "$block/size" 2>/dev/null)" != 0 ]; then
      case ${block##*/} in sr* | fd* | nbd* | loop* | ram* | zram*) ;; *) echo "${block##*/}" ;; esac
    fi
  done
}

judged() { # NAME: the faults of the JSON in stdin, one a line; "no SMART" for a disk without it
  jq --raw-output --arg name "$1" --argjson reallocated "$reallocated" --argjson pending "$pending" --argjson wear "$wear" \
    --argjson celsius "$celsius" '
      def raw($id): [.ata_smart_attributes.table[]? | select(.id == $id) | .raw.value] | first;
      def above($value; $most; $words): if ($value // 0) > $most then "\($name): \($value) \($words), and \($most) are permitted" else empty end;
      if .smart_status == null and .nvme_smart_health_information_log == null then "no SMART"
      else
        (if .smart_status.passed == false then "\($name): SMART says that the disk fails" else empty end),
        above(raw(5) // .scsi_grown_defect_list; $reallocated; "reallocated sectors"),
        above(raw(197); $pending; "pending sectors"),
        above(.nvme_smart_health_information_log.percentage_used // .scsi_percentage_used_endurance_indicator; $wear; "% worn"),
        above(.temperature.current; $celsius; "degrees Celsius"),
        (if (.nvme_smart_health_information_log.critical_warning // 0) != 0
          then "\($name): NVMe warning \(.nvme_smart_health_information_log.critical_warning)" else empty end)
      end'
}

judge_disks() {
  least=$(read_attribute commissioning/disks/least)
  reallocated=$(read_attribute commissioning/disks/reallocated)
  pending=$(read_attribute commissioning/disks/pending)
  wear=$(read_attribute commissioning/disks/wear)
  celsius=$(read_attribute commissioning/disks/celsius)
  required=$(read_attribute commissioning/disks/smart-required)
  virtual=$(read_attribute machine/virtual false)
  [ -z "$root" ] || exit 0 # below another root there is no machine
  names=$(whole)
  count=$(lines "$names" | wc -l)
  [ "$count" -ge "$least" ] || fault "the machine has $count disks, and $least must be there"
  if ! command -v smartctl >/dev/null || ! command -v jq >/dev/null; then
    if [ "$required" = true ] || [ "$virtual" != true ]; then
      fault "smartctl or jq is not here: boot the environment of etc/provisioner, or install smartmontools and jq"
    fi
    names=
  fi
  for name in $names; do
    code=0
    found=$(smartctl --json=c -i -H -A "/dev/$name" 2>/dev/null) || code=$? # bits; the JSON tells the faults of a disk
    faults=$(printf '%s\n' "$found" | judged "$name" 2>/dev/null) || faults="no SMART"
    if [ "$faults" != "no SMART" ]; then
      [ -z "$faults" ] || fault "$(printf '%s\n' "$faults" | paste -s -d ';' - | sed 's/;/; /g')"
    elif [ "$required" = true ]; then
      fault "$name has no SMART that can be read (smartctl ends with $code)"
    else
      echo "$name has no SMART that can be read (smartctl ends with $code): it is not judged"
    fi
  done

  settle "$count disks: $(lines "$names" | paste -s -d ' ' -)"
}

# -- network --

raise() { # in our environment: each card is up, and has some seconds for its link
  for card in "$sys"/class/net/*; do
    [ ! -e "$card/device" ] || ip link set dev "${card##*/}" up || true
  done
  sleep 5
}

judge_network() {
  links=$(read_attribute commissioning/network/links)
  speed=$(read_attribute commissioning/network/speed)
  [ -z "$root" ] || exit 0 # below another root there is no machine
  if ! checking && grep -q 'ocb\.mode=' "$proc/cmdline" 2>/dev/null; then raise; fi
  count=0 seen=
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
    fault "$count network cards have a link of $speed Mbit/s or more, and $links must: ${seen:-there is none}; look at cables and switch"
  fi
  settle "${seen:-no network card}"
}

# -- firmware --

dmi() { { tr -d '\000-\037' <"$sys/class/dmi/id/$1"; } 2>/dev/null | cut -c1-100 | sed 's/^ *//; s/ *$//'; }

judge_firmware() {
  mode=$(read_attribute commissioning/firmware/mode)
  products=$(read_attribute --keys commissioning/firmware/versions)
  [ -z "$root" ] || exit 0 # below another root there is no machine
  product=$(dmi product_name) version=$(dmi bios_version)
  booted=bios
  [ ! -d "$sys/firmware/efi" ] || booted=uefi
  if [ -n "$mode" ] && [ "$mode" != "$booted" ]; then
    fault "the machine booted by $booted, and mode is $mode: change its firmware settings"
  fi
  if [ -n "$products" ]; then
    key=$(printf '%s\n' "${product:-unknown}" | sed 's/%/%25/g; s,/,%2F,g')
    permitted=$(read_attribute "commissioning/firmware/versions/$key" "")
    if [ -z "$permitted" ]; then
      fault "no version is named for product ${product:-unknown}, which has $version: add it to firmware_versions"
    else
      case $version in
      $permitted) ;;
      *) fault "the firmware of ${product:-unknown} has version ${version:-unknown}, and $permitted is permitted: update it" ;;
      esac
    fi
  fi

  settle "firmware $booted, version ${version:-unknown} of product ${product:-unknown}"
}

"judge_$part"
