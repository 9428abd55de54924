# shellcheck shell=sh
# The installation: identity, order, disk, image, system, boot loader; then the machine waits until it may start from its disk.
#
# A failure ends the agent's work in this boot: it is reported, and the annealer boots the machine once more.

IDENTITY_SECONDS=300
RESTART_SECONDS=3600 # from the report until the permission to restart
ANSWER_SECONDS=45    # a server waits so long for the permission, before it answers the report without it

# read_order: an answer of the API with an order, on standard input, as shell variables. One jq reads all of it: each start of jq
# costs an emulated CPU most of a second. The plain values; of layout as layout.KEY, and of nocloud as nocloud.KEY; the disk, the
# network and each hint of wipe as JSON; lists as lines. Fails for an answer without an order.
read_order() {
  # shellcheck disable=SC2016 # variables of jq
  (umask 077 && jq --raw-output '
    def plain: to_entries[] | select(.value | type | IN("string", "number", "boolean"));
    def nested($key): .[$key] // {} | plain | .key |= "\($key).\(.)";
    def lines: if type == "array" then map(strings) | join("\n") else . // "" end;
    .answer.token as $token | .answer.order
    | plain, nested("layout"), nested("nocloud"),
      {key: "token", value: $token}, {key: "disk", value: (.disk // {} | tojson)}, {key: "image", value: (.image | lines)},
      {key: "wipe", value: (.wipe // [] | map(tojson) | join("\n"))}, {key: "authorized_keys", value: (.authorized_keys | lines)},
      {key: "network", value: (if (.network // {}) == {} then "" else .network | tojson end)},
      {key: "nameservers", value: ([.network | .. | objects | .nameservers? // empty | .addresses[]?] | unique
        | map("nameserver \(.)") | join("\n"))}
    | "ordered_\(.key | gsub("[^A-Za-z0-9]"; "_"))=\(.value | tostring | @sh)"' >"$OCB_RUN/ordered") || return 1
  [ -s "$OCB_RUN/ordered" ] || return 1
  . "$OCB_RUN/ordered"
}

ordered() { # ordered KEY: a value of the order; empty without
  name=$1
  while :; do
    case $name in *[.-]*) name=${name%%[.-]*}_${name#*[.-]} ;; *) break ;; esac
  done
  eval "value=\${ordered_$name:-}"
  [ -z "$value" ] || printf '%s\n' "$value"
}

install_machine() {
  if [ -e "$OCB_RUN/ended" ]; then rest; fi # this boot's work is done, with its reason on the console
  trap ': >"$OCB_RUN/ended"' EXIT
  [ -n "$node" ] || die "the kernel arguments lack ocb.node"
  set_clock
  identify
  began=$(uptime_seconds)
  case $(ordered action) in
  install | '') ;;
  wipe) wipe_machine ;;
  *) die "the order's action is unknown to this environment: $(ordered action)" ;;
  esac
  prepare
  case $format in
  tar) install_tar ;;
  raw) install_raw ;;
  *) die "the order's format must be tar or raw, and is \"$format\"" ;;
  esac
  say "installed in $(($(uptime_seconds) - began)) s; waiting for the permission to restart"
  report verified 100 "" "sha256:$sum" $ANSWER_SECONDS || die "the end of the installation was not accepted"
  leave
}

identify() { # proves this boot; sets the order. The same answer is asked again while none came
  token=$(argument ocb.boot)
  if [ -z "$token" ]; then # as in a machine that starts again while it is installed
    fault="the kernel arguments lack ocb.boot: this boot was not ordered"
    evidence identity "$fault"
    die "$fault"
  fi
  body="{\"mac\": $(json "$mac"), \"boot_id\": $(json "$(first_line "$OCB_PROC/sys/kernel/random/boot_id")")"
  body="$body, \"host_key\": $(json "$(host_key)")}"
  until call POST "/v1/nodes/$node/installation/identity" "Authorization: Bearer $token" "$body"; do
    say "identity: no server answered: $fault"
    if [ "$(uptime_seconds)" -ge $IDENTITY_SECONDS ]; then
      evidence identity "$fault"
      die "no server of the API took the identity in $IDENTITY_SECONDS seconds"
    fi
    sleep 3
  done
  case $status in
  2*) ;;
  *)
    evidence identity "$(refusal)"
    die "the identity was refused: $(refusal)"
    ;;
  esac
  read_order <"$OCB_RUN/answer" || die "the answer has no order"
  rm -f "$OCB_RUN/answer" # it has the machine's token
  keep_token "$(ordered token)"
  say "identified as $node"
}

prepare() { # reads and checks the order before anything is written
  format=$(ordered format) size=$(ordered size) sum=$(ordered checksum)
  sum=${sum#sha256:}
  urls=$(ordered image | full_urls)
  echo "$sum" | grep -Eq '^[0-9a-f]{64}$' || die "the order's checksum is no SHA-256: $sum"
  case $size in '' | *[!0-9]*) die "the order's size is no number of bytes: $size" ;; esac
  [ -n "$urls" ] || die "the order names no image"
  needed=$size
  [ "$format" = raw ] || needed=$((size * 2 + (ESP_MIB + SPARE_MIB + $(layout swap_mib 0)) * 1048576))
  count=1
  [ "$(layout raid1 false)" = false ] || count=2
  choose "$(ordered disk)" $count "$needed"
  say "disk: $(echo "$chosen" | tr '\n' ' ')"
  read_wipes
  for each in $wipes; do
    say "wipe $each: $method"
    wipe_disk "$each" "$method" </dev/null || die "$each was not wiped: $fault"
  done
  for each in $chosen; do release_disk "$each"; done
}

full_urls() { # paths are those of the admin node that this machine booted from
  server=$(argument ocb.server)
  while IFS= read -r url; do
    case $url in
    http://* | https://*) echo "$url" ;;
    *) echo "${server%/}/${url#/}" ;;
    esac
  done
}

install_tar() {
  # shellcheck disable=SC2086
  set -- $chosen
  for disk in "$@"; do make_partitions "$disk"; done
  make_file_systems "$@"
  # shellcheck disable=SC2086
  fetch "$size" "$sum" tar_sink $urls
  say "fetched, with the ordered SHA-256"
  report fetched 100 "" "sha256:$sum"
  write_tar
  settle_fstab "$1"
  settle_system
  settle_network
  say "installing the boot loader"
  install_boot_loader "$@"
  sync
}

install_raw() {
  # shellcheck disable=SC2086
  fetch "$size" "$sum" raw_sink $urls
  report fetched 100 "" "sha256:$sum"
  write_head "$size" "$sum"
  mount_raw_root
  settle_system
  settle_network
  order_boots "$chosen"
  sync
}

permitted() { # whether this machine may leave the environment; asks for it
  call GET "/v1/nodes/$node/installation" "$(own_header)" && permits .answer
}

permits() { # permits JQ-PATH: whether the progress of the installation, there in the last answer, permits it. Sets $epoch
  {
    read -r reboot && read -r epoch
  } <<END
$(jq --raw-output "$1 | .reboot? // false, .epoch? // \"\"" <"$OCB_RUN/answer" 2>/dev/null)
END
  [ "$reboot" = true ]
}

# await_permission DEED: "local" must be published before the machine starts again. After a report with WAIT. A machine whose node
# is out of service needs no more leave to switch off: its token opens nothing then.
await_permission() {
  waited=$(uptime_seconds)
  if permits .document; then return; fi
  until permitted; do
    case $1:$status in "switch off:40"[14]) return ;; esac
    [ $(($(uptime_seconds) - waited)) -lt $RESTART_SECONDS ] || die "no permission to $1 came in $RESTART_SECONDS seconds"
    sleep 2
  done
}

leave() { # for the installed system
  await_permission restart
  settle_epoch "${epoch:-$(ordered epoch)}" # another annealer may have taken the installation over
  release_target
  say "restarting from the disk"
  restart
}

restart() { busybox reboot -f; }
