#!/bin/sh
# Makes this admin node a server for machines that boot from the network: dnsmasq (DHCP, TFTP, DNS) and nginx (HTTP).
#
# Both run with our configuration below one directory, beside other instances. A configuration is tested before it is activated; a
# wrong one is refused with the words of the tool, and the old one goes on. The roles of databases write further files there.
set -eu
. "$OCB_LIBRARY"
umask 022

top=$root$(read_attribute provisioner/root)
port=$(read_attribute provisioner/port)
transfers=$(read_attribute provisioner/transfers)
interface=$(read_attribute provisioner/interface)
address=$(read_attribute provisioner/address)
ca=$(read_attribute provisioner/site/ca.pem)
token=$(read_attribute provisioner/site/join-token)
api=$(items provisioner/site/api)
ntp=$(items provisioner/site/ntp)
keys=$(items provisioner/site/authorized_keys)
secure=$(read_attribute provisioner/secure-boot false)
for_dnsmasq=$(read_attribute provisioner/templates/dnsmasq.conf)
for_nginx=$(read_attribute provisioner/templates/nginx.conf)
[ -n "$address" ] || address=$(ip -4 -o address show scope global ${interface:+dev "$interface"} | awk '{ sub("/.*", "", $4); print $4; exit }')
if [ -z "$address" ]; then
  echo "this machine has no IPv4 address${interface:+ on $interface}; set provisioner/address" >&2
  exit 1
fi
for tool in dnsmasq nginx cpio; do
  if ! command -v "$tool" >/dev/null; then
    echo "$tool is not installed; install the packages dnsmasq-base nginx-light cpio ipxe" >&2
    exit 1
  fi
done

for part in "" /http /http/images /tftp /hosts.d /opts.d /boots.d /names.d /conf.d /run /log; do put_directory "$top$part" 755; done
put_directory "$top/http/boot" 711
put_directory "$top/state" 755
for program in undionly.kpxe ipxe.efi snponly.efi; do
  if [ ! -r "/usr/lib/ipxe/$program" ]; then
    echo "/usr/lib/ipxe/$program does not exist; install the package ipxe" >&2
    exit 1
  fi
  put "$top/tftp/$program" <"/usr/lib/ipxe/$program"
  put "$top/http/$program" <"/usr/lib/ipxe/$program"
done
# shim and GRUB for machines with Secure Boot. GRUB takes images by TFTP: its own HTTP knows no other port than 80.
for part in /tftp/boot /tftp/grub; do put_directory "$top$part" 711; done
for pair in shim/shimx64.efi.signed=shimx64.efi grub/x86_64-efi-signed/grubnetx64.efi.signed=grubx64.efi; do
  if [ -r "/usr/lib/${pair%=*}" ]; then
    put "$top/tftp/${pair#*=}" <"/usr/lib/${pair%=*}"
  elif [ "$secure" = true ]; then
    echo "/usr/lib/${pair%=*} does not exist; install the packages shim-signed grub-efi-amd64-signed" >&2
    exit 1
  fi
done
put_link "$top/tftp/images" ../http/images
put_link "$top/tftp/site.cpio" ../http/site.cpio
put "$top/tftp/grub/grub.cfg" <<EOF
set files=(tftp,$address)
set server=http://$address:$port
net_get_dhcp_option name \$net_default_interface 224 string
if [ -z "\$name" ]; then set name=default; fi
source \$files/boot/\$name.cfg
echo "ocb: the server $address has no configuration of GRUB for this machine, \$net_default_mac; next attempt in 30 s"
sleep 30
reboot
EOF
[ -e "$top/state/id" ] || checking || cat /proc/sys/kernel/random/uuid >"$top/state/id"
lines "http://$address:$port" | put "$top/state/address"

# The functions that the roles of databases use, too.
put "$top/state/daemons.sh" <<EOF
top=$top
apart=$root
interface=$interface
with_systemd=$([ -z "$root" ] && [ -d /run/systemd/system ] && echo yes || true)
EOF
put "$top/state/functions.sh" <<'EOF'
. "${functions%/*}/daemons.sh"

alive() { # NAME: its process runs
  [ -s "$top/run/$1.pid" ] && read -r pid <"$top/run/$1.pid" && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$1" ]
}

test_dnsmasq() { # DIRECTORY: of conf.d, as it would be; prints the words of dnsmasq if it is wrong
  sed "s|^conf-dir=.*|conf-dir=$1,*.conf|" "$top/state/dnsmasq.conf" >"$top/run/test.conf"
  said=$(dnsmasq --test --conf-file="$top/run/test.conf" 2>&1) || { printf '%s\n' "$said" >&2; return 1; }
}

stop() { # NAME
  alive "$1" || return 0
  kill "$pid"
  tries=0
  while [ -d "/proc/$pid" ] && [ "$tries" -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
}

restart_dnsmasq() {
  [ -z "$apart" ] || return 0 # below another root, nothing but files is made
  if [ -n "$with_systemd" ]; then systemctl restart nodepool-ocb-dnsmasq.service; return; fi
  stop dnsmasq
  dnsmasq --conf-file="$top/state/dnsmasq.conf"
}

# It begins anew: dnsmasq 2.90 may die of SIGHUP after it has answered a machine by an option of a file.
reread_dnsmasq() { # MARK: a file of a database; returns when dnsmasq has read the databases, and this file
  [ -z "$apart" ] || return 0
  : >"$1"
  chmod 644 "$1"
  size=$(stat -c %s "$top/log/dnsmasq.log" 2>/dev/null || echo 0)
  restart_dnsmasq || return
  tries=0
  until tail -c "+$((size + 1))" "$top/log/dnsmasq.log" 2>/dev/null | grep -qF "read $1"; do
    [ "$tries" -lt 300 ] || { echo "dnsmasq has not read its databases within 30 s; see $top/log/dnsmasq.log" >&2; return 1; }
    sleep 0.1
    tries=$((tries + 1))
  done
  rm -f "$1"
}

publish() { # DOCUMENTS FOLDER: makes their files active, and gives back the digests after dnsmasq has read them
  stage=$top/run/$OCB_ROLE
  rm -rf "$stage"
  mkdir -p "$stage"
  manifest=$top/state/$OCB_ROLE.manifest
  [ -e "$manifest" ] || : >"$manifest"
  read -r server <"$top/state/address"
  host=${server#*://}
  host=${host%:*}

  # N NAME DIGEST begins a document, F PATH a file, |TEXT is a line of it.
  printf "%s\n" "$1" | awk -v stage="$stage" -v server="$server" -v host="$host" -v top="$top" '
    function finish() { if (out != "") close(out); out = "" }
    /^N / { finish(); node = $2; print $2, $3 >(stage "/digests"); next }
    /^F / {
      finish()
      if ($2 ~ /\.\./ || $2 !~ /^[A-Za-z0-9@._\/-]+$/) { print "the path " $2 " is refused" >"/dev/stderr"; exit 1 }
      name = $2
      folder = name
      sub("/[^/]*$", "", folder)
      if (!(folder in made)) { system("mkdir -p " stage "/files/" folder); made[folder] = 1; print folder >(stage "/folders") }
      out = stage "/files/" name
      printf "" >out
      print node, name >(stage "/manifest")
      next
    }
    /^\|/ { line = substr($0, 2); gsub("@SERVER@", server, line); gsub("@ADDRESS@", host, line); gsub("@ROOT@", top, line); print line >out }
  ' || { echo "the documents cannot be read" >&2; return 1; }
  touch "$stage/digests" "$stage/manifest" "$stage/folders"

  # A changed configuration is tested with the rest as it is, before anything is moved.
  restart=
  if [ -d "$stage/files/conf.d" ]; then
    for file in "$stage"/files/conf.d/*; do cmp -s "$file" "$top/conf.d/${file##*/}" || restart=yes; done
  fi
  if [ -n "$restart" ]; then
    mkdir "$stage/conf.d"
    cp "$top"/conf.d/*.conf "$stage/conf.d/" 2>/dev/null || true
    cp "$stage"/files/conf.d/*.conf "$stage/conf.d/"
    if ! test_dnsmasq "$stage/conf.d"; then
      echo "the configuration of dnsmasq is wrong, and was not activated" >&2
      return 1
    fi
  fi

  sort -u "$stage/folders" | while read -r folder; do
    mkdir -p "$top/$folder"
    find "$stage/files/$folder" -maxdepth 1 -type f -exec mv -f -t "$top/$folder" {} +
  done
  # The paths that these documents had, and have no more; then the new list of all paths.
  awk -v stage="$stage" '
    FILENAME ~ /digests$/ { ours[$1] = 1; next }
    FILENAME == stage "/manifest" { wanted[$2] = 1; print >(stage "/after"); next }
    !($1 in ours) { print >(stage "/after"); next }
    !($2 in wanted) { print $2 }
  ' "$stage/digests" "$stage/manifest" "$manifest" >"$stage/gone"
  (cd "$top" && xargs -r -d '\n' rm -f --) <"$stage/gone"
  touch "$stage/after"
  mv -f "$stage/after" "$manifest"

  if [ ! -s "$stage/digests" ] && alive dnsmasq; then
    : # nothing is new
  elif grep -qsF "$top/$2" "$top"/conf.d/*.conf; then
    reread_dnsmasq "$top/$2/zz-$$"
  else # the configuration of this database is lost: with a new id, all documents are sent again
    cat /proc/sys/kernel/random/uuid >"$top/state/id"
    : >"$stage/digests"
  fi
  count=$(wc -l <"$stage/digests")
  echo "$count documents are active"
  published=$(awk '{ printf "%s\"%s\": \"%s\"", comma, $1, $2; comma = ", " }' "$stage/digests")
  write_attribute --json provisioner/published "{$published}"
  write_attribute provisioner/log "$top/log/access.log"
  write_attribute provisioner/directory "$(cat "$top/state/id")"
  write_attribute provisioner/http "$server"
  rm -rf "$stage"
}

listen() { # gives back the servers of DHCP that answer a MAC of this node's: ours ignore it
  [ -z "$apart" ] || return 0
  ip -4 -o addr show scope global ${interface:+dev "$interface"} | awk '{ sub(":", "", $1); sub("@.*", "", $2); print $1, $2, $4 }' >"$top/run/links"
  fault=
  if ! command -v perl >/dev/null; then
    fault="perl is not installed"
  elif ! heard=$(perl "$top/state/listen.pl" "02$(printf %s "$OCB_NODE" | sha256sum | cut -c1-10)" 6 "$top/run/links" 2>"$top/run/said"); then
    fault=$(head -n 1 "$top/run/said")
  fi
  if [ -n "$fault" ]; then
    echo "servers of DHCP were not looked for: $fault" >&2
    write_attribute provisioner/fault "$fault"
    return 0
  fi
  more=false
  case $heard in *more) more=true ;; esac
  heard=$(lines "$heard" | awk 'NF == 4 {
    printf "%s{\"interface\": \"%s\", \"own\": \"%s\", \"server\": \"%s\", \"offered\": \"%s\"}", comma, $1, $2, $3, $4; comma = ", " }')
  own=$(awk '{ sub("/.*", "", $3); printf "%s\"%s\"", comma, $3; comma = ", " }' "$top/run/links")
  write_attribute --json provisioner/heard "[$heard]"
  write_attribute --json provisioner/more "$more"
  write_attribute --json provisioner/addresses "[$own]"
}
EOF

# Asks for an address by DHCP on each link, as a machine does that boots from the network, and takes none.
put "$top/state/listen.pl" <<'EOF'
# perl listen.pl MAC SECONDS FILE: FILE has lines "INDEX INTERFACE ADDRESS". Prints "INTERFACE ADDRESS SERVER OFFERED" for each server of a
# link that offers, of at most 20, and "more" if there were others, or more than 500 offers: then it reads no further.
use strict; use warnings; use Socket;
my ($mac, $seconds, $file) = @ARGV;
my ($PF_PACKET, $IP) = (17, 0x0800);
my $chaddr = pack("H12", $mac);
my $id = pack("N", int(rand(2**32)));
my $asked = pack("C4", 1, 1, 6, 0) . $id . pack("n2 x16", 0, 0x8000) . pack("a16 x192 N", $chaddr, 0x63825363);
$asked .= pack("C*", 53, 1, 1, 55, 4, 1, 3, 54, 67) . pack("C2 a*", 60, 32, "PXEClient:Arch:00000:UNDI:002001") . pack("C2 n", 93, 2, 0);
$asked .= pack("C4 a3", 94, 3, 1, 2, "\1") . "\xff";
$asked .= "\0" x (300 - length $asked) if length $asked < 300;
my $udp = pack("n4", 68, 67, 8 + length $asked, 0) . $asked;
my $ip = pack("C2 n3 C2 n a4 a4", 0x45, 16, 20 + length $udp, 7, 0, 64, 17, 0, "\0\0\0\0", "\xff\xff\xff\xff");
my $sum = 0;
$sum += $_ for unpack("n10", $ip);
$sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
substr($ip, 10, 2) = pack("n", ~$sum & 0xffff);
my (@links, %seen);
open(my $list, "<", $file) or die "$file: $!\n";
while (my ($index, $name, $address) = split(" ", <$list> // "")) {
  next if $seen{$name}++ or @links >= 16;
  socket(my $socket, $PF_PACKET, SOCK_DGRAM, unpack("S", pack("n", $IP))) or die "a packet socket: $!\n";
  my $place = sub { pack("S n l S C C a8", $PF_PACKET, $IP, $index, 1, 0, 6, $_[0]) };
  bind($socket, $place->("")) or die "$name: $!\n";
  push @links, [$socket, $place->("\xff" x 6), $name, $address];
}
my ($began, $sent, $offers, $more, %server) = (time, 0, 0, 0);
while (time < $began + $seconds and not $more) {
  if ($sent == 0 or ($sent == 1 and time >= $began + 2)) {
    $sent++;
    for (@links) { send($_->[0], $ip . $udp, 0, $_->[1]) or die "$_->[2]: $!\n" }
  }
  my $bits = "";
  vec($bits, fileno($_->[0]), 1) = 1 for @links;
  select($bits, undef, undef, 0.5) > 0 or next;
  for (@links) {
    next unless vec($bits, fileno($_->[0]), 1);
    recv($_->[0], my $data, 4096, 0) // next;
    my ($first, $kind, $source) = unpack("C x8 C x2 a4", $data);
    next unless defined $source and $kind == 17;
    my $bootp = substr($data, (($first & 15) * 4)) // next;
    next if length $bootp < 8 + 240 or unpack("x2 n", $bootp) != 68;
    $bootp = substr($bootp, 8);
    next unless substr($bootp, 0, 1) eq "\2" and substr($bootp, 4, 4) eq $id and substr($bootp, 28, 6) eq $chaddr;
    my ($at, %option) = (240);
    while ($at + 1 < length $bootp and (my $code = ord substr($bootp, $at, 1)) != 255) {
      if ($code == 0) { $at++; next }
      my $size = ord substr($bootp, $at + 1, 1);
      $option{$code} = substr($bootp, $at + 2, $size);
      $at += 2 + $size;
    }
    next unless ($option{53} // "") eq "\2";
    my $server = inet_ntoa(length($option{54} // "") == 4 ? $option{54} : $source);
    if (++$offers > 500) { $more = 1; last }
    next if $server{"$_->[2] $server"};
    if (keys %server >= 20) { $more = 1; last }
    $server{"$_->[2] $server"} = 1;
    print join(" ", $_->[2], $_->[3], $server, inet_ntoa(substr($bootp, 16, 4))), "\n";
  }
}
print "more\n" if $more;
EOF

# site.cpio: the second initrd of each environment, with all that is of this site.
if ! checking; then
  site=$(mktemp -d "$top/run/site.XXXXXX")
  mkdir -p "$site/etc/ocb"
  chmod 755 "$site" # it becomes the mode of / in the initrd
  lines "$ca" >"$site/etc/ocb/ca.pem"
  lines "$token" >"$site/etc/ocb/join-token"
  lines "$api" >"$site/etc/ocb/api"
  lines "$ntp" >"$site/etc/ocb/ntp"
  lines "$keys" >"$site/etc/ocb/authorized_keys"
  chmod 600 "$site/etc/ocb/join-token"
  find "$site" -exec touch -d @0 {} +
  (cd "$site" && find . | LC_ALL=C sort | cpio --quiet --reproducible -R 0:0 -o -H newc) >"$top/run/site.cpio"
  rm -rf "$site"
  cmp -s "$top/run/site.cpio" "$top/http/site.cpio" || mv -f "$top/run/site.cpio" "$top/http/site.cpio"
fi

# The configurations are made aside, and activated after their test.
{
  lines "$for_dnsmasq" | sed "s|@ROOT@|$top|g"
  [ -z "$interface" ] || lines "interface=$interface"
  lines "conf-dir=$top/conf.d,*.conf"
} | put "$top/state/dnsmasq.conf.new"
[ -e "$top/conf.d/dns.conf" ] || lines port=0 | put "$top/conf.d/dns.conf"
lines "$for_nginx" |
  sed "s|@ROOT@|$top|g; s|@ADDRESS@|$address|g; s|@PORT@|$port|g; s|@TRANSFERS@|$transfers|g" | put "$top/state/nginx.conf.new"

if checking; then
  [ -z "$root" ] || exit 0
  for name in dnsmasq nginx; do
    read -r pid <"$top/run/$name.pid" 2>/dev/null && [ -d "/proc/$pid" ] || drifted "$name does not run"
  done
  exit 0
fi

functions=$top/state/functions.sh
. "$functions"
if ! said=$(nginx -t -q -c "$top/state/nginx.conf.new" 2>&1); then
  printf '%s\n' "$said" "the configuration of nginx is wrong, and was not activated" >&2
  exit 1
fi
if ! said=$(sed "s|^conf-dir=.*||" "$top/state/dnsmasq.conf.new" >"$top/run/new.conf" && dnsmasq --test --conf-file="$top/run/new.conf" 2>&1); then
  printf '%s\n' "$said" "the configuration of dnsmasq is wrong, and was not activated" >&2
  exit 1
fi

if [ -n "$with_systemd" ]; then
  for name in dnsmasq nginx; do
    case $name in
      dnsmasq) start="$(command -v dnsmasq) --conf-file=$top/state/dnsmasq.conf" ;;
      nginx) start="$(command -v nginx) -c $top/state/nginx.conf" ;;
    esac
    put "/etc/systemd/system/nodepool-ocb-$name.service" <<EOF
[Unit]
Description=$name for machines that boot from the network
After=network-online.target
Wants=network-online.target

[Service]
Type=forking
PIDFile=$top/run/$name.pid
ExecStart=$start
ExecReload=/bin/kill -HUP \$MAINPID
Restart=on-failure

[Install]
WantedBy=multi-user.target
EOF
  done
  systemctl daemon-reload
  systemctl enable --quiet nodepool-ocb-dnsmasq.service nodepool-ocb-nginx.service
fi

changed() { # NAME: whether the new configuration differs from the active one; makes it active
  if cmp -s "$top/state/$1.conf.new" "$top/state/$1.conf"; then return 1; fi
  cp "$top/state/$1.conf.new" "$top/run/$1.conf" && mv -f "$top/run/$1.conf" "$top/state/$1.conf"
}

if [ -n "$root" ]; then
  write_attribute provisioner/server/address "http://$address:$port"
  exit 0
fi
if changed dnsmasq || ! alive dnsmasq; then restart_dnsmasq; fi
if changed nginx || ! alive nginx; then
  if [ -n "$with_systemd" ]; then
    systemctl restart nodepool-ocb-nginx.service
  elif alive nginx; then
    kill -HUP "$pid"
  else
    nginx -c "$top/state/nginx.conf"
  fi
fi
write_attribute provisioner/server/address "http://$address:$port"
