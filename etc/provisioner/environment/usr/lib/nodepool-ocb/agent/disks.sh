# shellcheck shell=sh
# The disks of this machine, and the choice of the one to write. A choice that is not certain is refused.

# A JSON list: path, serial, wwn, model, bytes, rotational, removable. A disk at a storage network may be that of other machines,
# and one at USB is seldom a part of this one: both count as removable.
disks() {
  lsblk --json --bytes --nodeps --output PATH,TYPE,SIZE,SERIAL,WWN,MODEL,ROTA,RO,RM,TRAN 2>/dev/null |
    jq --compact-output '[.blockdevices[]? | select(.type == "disk" and .ro == false and .size > 0)
      | select(.path | test("^/dev/(zram|ram|fd|nbd|sr)") | not)
      | {path, serial: (.serial // "" | gsub("^ +| +$"; "")), wwn: (.wwn // ""), model: (.model // "" | gsub("^ +| +$"; "")),
         bytes: .size, rotational: .rota, removable: (.rm or (.tran | IN("usb", "fc", "fcoe", "iscsi")))}]'
}

# matching HINTS: the disks that match every hint, as a JSON list. A removable disk must be named by path, serial or WWN.
# Sizes are bytes, or such as "64G". An empty WWN, serial or model matches no hint.
matching() {
  disks | jq --compact-output --argjson hints "$1" --arg path "$(resolved "$(echo "$1" | jq --raw-output '.path // ""')")" '
    def bytes: if type == "number" then . else capture("^(?<number>[0-9]+)(?<unit>[KMGT]?)$")
      | (.number | tonumber) * ({"": 1, K: 1024, M: 1048576, G: 1073741824, T: 1099511627776}[.unit]) end;
    ($hints | with_entries(select(.value != null and .value != ""))) as $given
    | [.[] | . as $disk | select(
        ($given | to_entries | all(
          if .key == "path" then $disk.path == $path
          elif .key == "serial" or .key == "wwn" or .key == "model" then $disk[.key] == .value
          elif .key == "min-size" then $disk.bytes >= (.value | bytes)
          elif .key == "max-size" then $disk.bytes <= (.value | bytes)
          elif .key == "rotational" then $disk.rotational == .value
          else false end))
        and (($disk.removable | not) or ($given | has("path") or has("serial") or has("wwn"))))]'
}

resolved() { # resolved PATH: /dev/disk/by-id/... as the name of the kernel
  if [ -n "$1" ]; then readlink -f "$1" 2>/dev/null || echo "$1"; fi
}

shown() { # shown DISKS: for sentences
  echo "$1" | jq --raw-output 'map("\(.path) (\(.bytes / 1048576 | floor) MiB\(if .serial != "" then ", serial \(.serial)" else "" end))")
    | if length == 0 then "none" else join(", ") end'
}

# choose HINTS COUNT BYTES: sets $chosen to the paths of the disks to write. Dies unless exactly COUNT disks match the hints;
# a disk below BYTES is refused by name.
choose() {
  unknown=$(echo "$1" | jq --raw-output 'keys - ["path", "serial", "wwn", "model", "min-size", "max-size", "rotational"] | join(", ")')
  [ -z "$unknown" ] || die "the order has unknown hints for the disk: $unknown"
  found=$(matching "$1")
  number=$(echo "$found" | jq length)
  if [ "$number" != "$2" ]; then
    die "$number disks match the hints $1, and $2 must: $(shown "$found"); disks of this machine: $(shown "$(disks)")"
  fi
  small=$(echo "$found" | jq --compact-output --argjson bytes "$3" '[.[] | select(.bytes < $bytes)]')
  [ "$small" = '[]' ] || die "the disk is too small: $(shown "$small"); the image needs $(($3 / 1048576)) MiB"
  chosen=$(echo "$found" | jq --raw-output '.[].path')
}

partition() { # partition DISK NUMBER: /dev/vda and 1: /dev/vda1; /dev/nvme0n1 and 1: /dev/nvme0n1p1
  case $1 in
  *[0-9]) echo "${1}p$2" ;;
  *) echo "$1$2" ;;
  esac
}
