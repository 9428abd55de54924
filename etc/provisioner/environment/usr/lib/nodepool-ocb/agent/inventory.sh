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

inventory() {
  jq --null-input --compact-output \
    --argjson cpus "$(grep -c '^processor' "$OCB_PROC/cpuinfo")" \
    --argjson memory "$(($(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' "$OCB_PROC/meminfo") * 1024))" \
    --argjson disks "$(disks | jq --compact-output '[.[] | {name: (.path | ltrimstr("/dev/")), size: .bytes, serial, wwn, model, rotational, removable}]')" \
    --argjson nics "$(nics)" \
    --arg bmc "$(bmc_address)" --arg firmware "$(firmware)" --arg serial "$(dmi product_serial)" \
    --arg vendor "$(dmi sys_vendor)" --arg product "$(dmi product_name)" --arg uuid "$(dmi product_uuid)" \
    --arg arch "$(uname -m)" --arg boot "$(cat "$OCB_PROC/sys/kernel/random/boot_id")" --arg bios "$(dmi bios_version)" \
    --arg model "$(sed -n 's/^model name[^:]*: //p' "$OCB_PROC/cpuinfo" | head -n 1)" \
    --argjson virtual "$(if grep -q '^flags.* hypervisor' "$OCB_PROC/cpuinfo"; then echo true; else echo false; fi)" \
    '{arch: $arch, cpus: $cpus, cpu_model: $model, memory: $memory, disks: $disks, nics: $nics, firmware: $firmware,
      bios_version: $bios, serial: $serial, vendor: $vendor, product: $product, uuid: $uuid, bmc_address: $bmc,
      virtual: $virtual, boot_id: $boot} | with_entries(select(.value != ""))'
}

firmware() { if [ -d "$OCB_SYS/firmware/efi" ]; then echo uefi; else echo bios; fi; }

dmi() { { tr -d '\000-\037' <"$OCB_SYS/class/dmi/id/$1"; } 2>/dev/null | cut -c1-100; }

nics() { # name, mac, speed in bits a second, driver, and the switch with its port if lldpd knows them
  neighbours=$(lldpcli -f json0 show neighbors 2>/dev/null) || neighbours=
  [ -n "$neighbours" ] && echo "$neighbours" | jq . >/dev/null 2>&1 || neighbours='{}'
  for nic in "$OCB_SYS"/class/net/*; do
    [ -e "$nic/device" ] || continue
    speed=$(cat "$nic/speed" 2>/dev/null) || speed=
    case $speed in '' | -*) speed=0 ;; esac
    jq --null-input --arg name "${nic##*/}" --arg mac "$(cat "$nic/address")" --argjson speed "$speed" \
      --arg driver "$(basename "$(readlink -f "$nic/device/driver")")" \
      --argjson lldp "$neighbours" '
        ([$lldp | .. | objects | select(.name? == $name and has("chassis"))] | first) as $seen
        | {name: $name, mac: $mac, speed: ($speed * 1000000), driver: $driver}
        + (if $seen == null then {} else {
            lldp_switch: ([$seen.chassis[]?.name[]?.value] | first // ""), lldp_port: ([$seen.port[]?.id[]?.value] | first // "")} end)'
  done | jq --slurp --compact-output .
}

bmc_address() { # empty without a BMC
  command -v ipmitool >/dev/null && [ -e /dev/ipmi0 ] || return 0
  timeout 20 ipmitool lan print 2>/dev/null | sed -n 's/^IP Address  *: *\([0-9.]*\)$/\1/p' | head -n 1
}
