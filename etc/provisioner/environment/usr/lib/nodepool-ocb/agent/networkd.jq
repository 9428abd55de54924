# Turns a network in netplan's terms (version 2) into files of systemd-networkd, each after a line "# file NAME".
# Known: ethernets, bonds, vlans, bridges with addresses, dhcp4, dhcp6, gateway4, gateway6, routes, nameservers, mtu.

def lines: map(select(. != null)) | .[];

def checked($kind; $known): (keys - $known) as $odd
  | if $odd == [] then . else error("\($kind): unknown key \($odd | join(", "))") end;

def common: ["addresses", "dhcp4", "dhcp6", "gateway4", "gateway6", "routes", "nameservers", "mtu", "macaddress"];

def network($all; $name): . as $each | [
  "[Network]",
  (if .dhcp4 == true and .dhcp6 == true then "DHCP=yes" elif .dhcp4 == true then "DHCP=ipv4" elif .dhcp6 == true then "DHCP=ipv6" else null end),
  ((.addresses // [])[] | "Address=\(.)"),
  (if .gateway4 then "Gateway=\(.gateway4)" else null end),
  (if .gateway6 then "Gateway=\(.gateway6)" else null end),
  ((.nameservers.addresses // [])[] | "DNS=\(.)"),
  (if (.nameservers.search // []) != [] then "Domains=\(.nameservers.search | join(" "))" else null end),
  ($all.vlans // {} | to_entries[] | select(.value.link == $name) | "VLAN=\(.key)"),
  ($all.bonds // {} | to_entries[] | select(.value.interfaces // [] | index($name)) | "Bond=\(.key)"),
  ($all.bridges // {} | to_entries[] | select(.value.interfaces // [] | index($name)) | "Bridge=\(.key)"),
  ((.routes // [])[] | "", "[Route]", "Destination=\(if .to == "default" then "0.0.0.0/0" else .to end)", "Gateway=\(.via)"),
  (if .mtu then "", "[Link]", "MTUBytes=\(.mtu)" else null end)
] | lines;

def named($name; $prefix; $all): "# file \($prefix)-\($name).network", "[Match]", "Name=\($name)", "", network($all; $name);

def netdev($name; $kind; more): "# file 10-\($name).netdev", "[NetDev]", "Name=\($name)", "Kind=\($kind)", more;

. as $all
| checked("network"; ["version", "renderer", "ethernets", "bonds", "vlans", "bridges"])
| (.ethernets // {} | to_entries[] | .key as $name | .value | checked("ethernet \($name)"; common + ["match", "set-name", "optional"])
    | "# file 20-\($name).network", "[Match]",
      (if .match.macaddress then "PermanentMACAddress=\(.match.macaddress)" elif .match.name then "Name=\(.match.name)" else "Name=\($name)" end),
      "", network($all; $name)),
  (.bonds // {} | to_entries[] | .key as $name | .value | checked("bond \($name)"; common + ["interfaces", "parameters"])
    | netdev($name; "bond"; ("", "[Bond]", "Mode=\(.parameters.mode // "active-backup")", "MIIMonitorSec=\(.parameters["mii-monitor-interval"] // 100)ms",
        (if .parameters["lacp-rate"] then "LACPTransmitRate=\(.parameters["lacp-rate"])" else empty end))),
      named($name; "30"; $all)),
  (.bridges // {} | to_entries[] | .key as $name | .value | checked("bridge \($name)"; common + ["interfaces", "parameters"])
    | netdev($name; "bridge"; ("", "[Bridge]", "STP=\(.parameters.stp // false)")), named($name; "40"; $all)),
  (.vlans // {} | to_entries[] | .key as $name | .value | checked("vlan \($name)"; common + ["id", "link"])
    | netdev($name; "vlan"; ("", "[VLAN]", "Id=\(.id)")), named($name; "50"; $all))
