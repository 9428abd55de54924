# shellcheck shell=sh
# The facts of this machine as JSON: CPUs, memory, disks, NICs, BMC, firmware, serial number.

first_mac() { # of the first NIC with a device, by name
  for nic in "$OCB_SYS"/class/net/*; do
    [ -e "$nic/device" ] || continue
    cat "$nic/address"
    return
  done
}

macs() { # of all NICs with a device, the one of this boot first
  {
    echo "$mac"
    for nic in "$OCB_SYS"/class/net/*; do
      if [ -e "$nic/device" ]; then cat "$nic/address"; fi
    done
  } | grep -E '^[0-9a-f]{2}(:[0-9a-f]{2}){5}$' | awk '!seen[$0]++'
}

# Of jq, from the lines of nics and the answer of lldpcli ("" without one): a NIC has name, mac, speed in bits a second, driver, and
# the switch with its port if lldpd knows them.
# shellcheck disable=SC2016 # variables of jq
NICS_JQ='
  def nics($lines; $lldp): ($lldp | try fromjson catch {}) as $seen
    | [$lines | split("\n")[] | select(. != "") | split(" ") | {name: .[0], mac: .[1], speed: (.[2] | tonumber * 1000000), driver: .[3]}
       | .name as $name | ([$seen | .. | objects | select(.name? == $name and has("chassis"))] | first) as $at
       | . + (if $at == null then {} else {
           lldp_switch: ([$at.chassis[]?.name[]?.value] | first // ""), lldp_port: ([$at.port[]?.id[]?.value] | first // "")} end)];
  def ports: map(.lldp_port | values) | length;
'

# Two lines: the number of ports of switches that are known, and words for people; then the inventory in JSON. One jq makes both.
# shellcheck disable=SC2016
inventory() {
  jq --null-input --raw-output \
    --rawfile cpuinfo "$OCB_PROC/cpuinfo" --rawfile meminfo "$OCB_PROC/meminfo" \
    --arg listed "$(listed)" --arg nics "$(nics)" --arg lldp "$(neighbours)" \
    --arg bmc "$(bmc_address)" --arg firmware "$(firmware)" --arg serial "$(dmi product_serial)" \
    --arg vendor "$(dmi sys_vendor)" --arg product "$(dmi product_name)" --arg uuid "$(dmi product_uuid)" \
    --arg arch "$(uname -m)" --arg boot "$(first_line "$OCB_PROC/sys/kernel/random/boot_id")" --arg bios "$(dmi bios_version)" \
    "$DISKS_JQ$NICS_JQ"'
    def clean: explode | map(select(. > 31)) | implode | .[0:100];
    ($cpuinfo | split("\n")) as $cpu
    | {arch: $arch, cpus: ($cpu | map(select(startswith("processor"))) | length),
       cpu_model: (first($cpu[] | select(startswith("model name")) | sub("^[^:]*: "; "")) // ""),
       memory: (first($meminfo | split("\n")[] | select(startswith("MemTotal:"))) | [scan("[0-9]+")][0] | tonumber * 1024),
       disks: [$listed | fromjson | disks[]
         | {name: (.path | ltrimstr("/dev/")), size: .bytes, serial, wwn, model, rotational, removable}],
       nics: nics($nics; $lldp), firmware: $firmware, bios_version: ($bios | clean), serial: ($serial | clean),
       vendor: ($vendor | clean), product: ($product | clean), uuid: ($uuid | clean), bmc_address: $bmc,
       virtual: any($cpu[]; startswith("flags") and contains(" hypervisor")), boot_id: $boot}
    | with_entries(select(.value != ""))
    | "\(.nics | ports) \(.cpus) CPUs, \(.memory / 1048576 | floor) MiB, \(.disks | length) disks", tojson'
}

first_line() { # first_line FILE: empty without it
  first=
  { read -r first <"$1"; } 2>/dev/null
  [ -z "$first" ] || printf '%s\n' "$first"
}

firmware() { if [ -d "$OCB_SYS/firmware/efi" ]; then echo uefi; else echo bios; fi; }

dmi() { first_line "$OCB_SYS/class/dmi/id/$1"; }

nics() { # a line for each NIC: name, mac, speed in megabits a second, driver
  for nic in "$OCB_SYS"/class/net/*; do
    [ -e "$nic/device" ] || continue
    speed=$(first_line "$nic/speed")
    case $speed in '' | *[!0-9]*) speed=0 ;; esac
    driver=$(readlink -f "$nic/device/driver")
    echo "${nic##*/} $(first_line "$nic/address") $speed ${driver##*/}"
  done
}

neighbours() { # empty without lldpd
  if command -v lldpcli >/dev/null; then lldpcli -f json0 show neighbors 2>/dev/null; fi
}

ports() { # how many of the NICs have a port of a switch
  seen=$(neighbours)
  # shellcheck disable=SC2016
  if [ -n "$seen" ]; then jq --null-input --arg nics "$(nics)" --arg lldp "$seen" "$NICS_JQ"'nics($nics; $lldp) | ports'; else echo 0; fi
}

bmc_address() { # empty without a BMC
  command -v ipmitool >/dev/null && [ -e /dev/ipmi0 ] || return 0
  timeout 20 ipmitool lan print 2>/dev/null | sed -n 's/^IP Address  *: *\([0-9.]*\)$/\1/p' | head -n 1
}
