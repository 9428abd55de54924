# shellcheck shell=sh
# The installation: identity, order, disk, image, system, boot loader; then the machine waits until it may start from its disk.
#
# A failure ends the agent's work in this boot: it is reported, and the annealer boots the machine once more.

IDENTITY_SECONDS=300
RESTART_SECONDS=3600 # from the report until the permission to restart

order() { jq --raw-output "$1" <"$OCB_RUN/order"; } # order JQ-FILTER

# ordered KEY: a value of the order, or of its layout as layout.KEY; empty without. One jq reads all of them: each start of
# it costs an emulated CPU most of a second.
ordered() {
  [ -e "$OCB_RUN/ordered" ] || order 'del(.layout) + (.layout // {} | with_entries(.key |= "layout.\(.)"))
    | to_entries[] | select(.value | type | IN("string", "number", "boolean"))
    | "\(.key)=\(.value)" | select(test("\n") | not)' >"$OCB_RUN/ordered"
  while IFS= read -r line; do
    case $line in "$1="*) printf '%s\n' "${line#*=}" ;; esac
  done <"$OCB_RUN/ordered"
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
  report verified 100 "" "sha256:$sum" || die "the end of the installation was not accepted"
  say "installed in $(($(uptime_seconds) - began)) s; waiting for the permission to restart"
  await_permission
}

identify() { # proves this boot; sets the order. The same answer is asked again while none came
  token=$(argument ocb.boot)
  if [ -z "$token" ]; then # as in a machine that starts again while it is installed
    fault="the kernel arguments lack ocb.boot: this boot was not ordered"
    evidence identity "$fault"
    die "$fault"
  fi
  body=$(jq --null-input --compact-output --arg mac "$mac" --arg boot "$(cat "$OCB_PROC/sys/kernel/random/boot_id")" \
    --arg key "$(host_key)" '{mac: $mac, boot_id: $boot, host_key: $key}')
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
  keep_token "$(answered .token)"
  rm -f "$OCB_RUN/ordered"
  (umask 077 && jq --exit-status .answer.order <"$OCB_RUN/answer" >"$OCB_RUN/order") || die "the answer has no order"
  say "identified as $node"
}

prepare() { # reads and checks the order before anything is written
  format=$(ordered format) size=$(ordered size) sum=$(ordered checksum)
  sum=${sum#sha256:}
  urls=$(order '.image | if type == "array" then .[] else . end' | full_urls)
  echo "$sum" | grep -Eq '^[0-9a-f]{64}$' || die "the order's checksum is no SHA-256: $sum"
  case $size in '' | *[!0-9]*) die "the order's size is no number of bytes: $size" ;; esac
  [ -n "$urls" ] || die "the order names no image"
  needed=$size
  [ "$format" = raw ] || needed=$((size * 2 + (ESP_MIB + SPARE_MIB + $(layout swap_mib 0)) * 1048576))
  count=1
  [ "$(layout raid1 false)" = false ] || count=2
  choose "$(order '.disk // {}')" $count "$needed"
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
  sync
}

permitted() { # whether this machine may leave the environment
  call GET "/v1/nodes/$node/installation" "$(own_header)" && [ "$(answered .reboot)" = true ]
}

await_permission() { # "local" must be published before the machine starts again
  waited=$(uptime_seconds)
  while [ $(($(uptime_seconds) - waited)) -lt $RESTART_SECONDS ]; do
    if permitted; then
      epoch=$(answered .epoch) # another annealer may have taken the installation over
      settle_epoch "${epoch:-$(ordered epoch)}"
      release_target
      say "restarting from the disk"
      restart
    fi
    sleep 2
  done
  die "no permission to restart came in $RESTART_SECONDS seconds"
}

restart() { busybox reboot -f; }
