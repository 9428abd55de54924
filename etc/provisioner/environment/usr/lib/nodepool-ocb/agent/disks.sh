# shellcheck shell=sh
# The disks of this machine, and the choice of the one to write. A choice that is not certain is refused.

# Of jq. disks: those of the answer of lsblk, as a list: path, serial, wwn, model, bytes, rotational, removable. A disk at a
# storage network may be that of other machines, and one at USB is seldom a part of this one: both count as removable.
# matching: those of a list that match every hint. A removable disk must be named by path, serial or WWN. Sizes are bytes, or such
# as "64G". An empty WWN, serial or model matches no hint. shown: a list for sentences.
# shellcheck disable=SC2016 # variables of jq
DISKS_JQ='
  def disks: [.blockdevices[]? | select(.type == "disk" and .ro == false and .size > 0)
    | select(.path | test("^/dev/(zram|ram|fd|nbd|sr)") | not)
    | {path, serial: (.serial // "" | gsub("^ +| +$"; "")), wwn: (.wwn // ""), model: (.model // "" | gsub("^ +| +$"; "")),
       bytes: .size, rotational: .rota, removable: (.rm or (.tran | IN("usb", "fc", "fcoe", "iscsi")))}];
  def bytes: if type == "number" then . else capture("^(?<number>[0-9]+)(?<unit>[KMGT]?)$")
    | (.number | tonumber) * ({"": 1, K: 1024, M: 1048576, G: 1073741824, T: 1099511627776}[.unit]) end;
  def matching($hints; $path): ($hints | with_entries(select(.value != null and .value != ""))) as $given
    | [.[] | . as $disk | select(
        ($given | to_entries | all(
          if .key == "path" then $disk.path == $path
          elif .key == "serial" or .key == "wwn" or .key == "model" then $disk[.key] == .value
          elif .key == "min-size" then $disk.bytes >= (.value | bytes)
          elif .key == "max-size" then $disk.bytes <= (.value | bytes)
          elif .key == "rotational" then $disk.rotational == .value
          else false end))
        and (($disk.removable | not) or ($given | has("path") or has("serial") or has("wwn"))))];
  def shown: map("\(.path) (\(.bytes / 1048576 | floor) MiB\(if .serial != "" then ", serial \(.serial)" else "" end))")
    | if length == 0 then "none" else join(", ") end;
'

listed() { lsblk --json --bytes --nodeps --output PATH,TYPE,SIZE,SERIAL,WWN,MODEL,ROTA,RO,RM,TRAN 2>/dev/null; }

# matching HINTS: the paths of the disks that match, one a line
matching() {
  listed | jq --raw-output --argjson hints "$1" --arg path "$(hinted_path "$1")" "$DISKS_JQ"'
    disks | matching($hints; $path) | .[].path'
}

hinted_path() { # hinted_path HINTS: /dev/disk/by-id/... as the name of the kernel; empty without a path
  case $1 in *'"path"'*) ;; *) return ;; esac
  hinted=$(printf '%s\n' "$1" | jq --raw-output '.path // ""')
  if [ -n "$hinted" ]; then readlink -f "$hinted" 2>/dev/null || echo "$hinted"; fi
}

shown() { # shown PATH: a disk for sentences
  listed | jq --raw-output --arg path "$1" "$DISKS_JQ"'disks | map(select(.path == $path)) | shown'
}

# choose HINTS COUNT BYTES: sets $chosen to the paths of the disks to write. Dies unless exactly COUNT disks match the hints;
# a disk below BYTES is refused by name. One jq decides: its answer is the paths, or "no: " and the reason.
choose() {
  chosen=$(listed | jq --raw-output --arg words "$1" --argjson hints "$1" --argjson count "$2" --argjson bytes "$3" \
    --arg path "$(hinted_path "$1")" "$DISKS_JQ"'
    ($hints | keys - ["path", "serial", "wwn", "model", "min-size", "max-size", "rotational"] | join(", ")) as $unknown
    | disks | . as $all | matching($hints; $path) | map(select(.bytes < $bytes)) as $small
    | if $unknown != "" then "no: the order has unknown hints for the disk: \($unknown)"
      elif length != $count then
        "no: \(length) disks match the hints \($words), and \($count) must: \(shown); disks of this machine: \($all | shown)"
      elif $small != [] then
        "no: the disk is too small: \($small | shown); the image needs \($bytes / 1048576 | floor) MiB"
      else .[].path end') || die "the disk could not be chosen by the hints $1"
  case $chosen in
  "no: "*) die "${chosen#no: }" ;;
  '') die "lsblk shows no disk" ;;
  esac
}

partition() { # partition DISK NUMBER: /dev/vda and 1: /dev/vda1; /dev/nvme0n1 and 1: /dev/nvme0n1p1
  case $1 in
  *[0-9]) echo "${1}p$2" ;;
  *) echo "$1$2" ;;
  esac
}
