# shellcheck shell=sh
# The erasure of disks, by the method of the order.

refuse_method() { # refuse_method METHOD: dies before anything is written
  case $1 in
  signatures | discard | overwrite | nvme-format) ;;
  *) die "the order's wipe_method must be signatures, discard, overwrite or nvme-format, and is \"$1\"" ;;
  esac
}

read_wipes() { # sets $method, and $wipes to the paths of the disks that the order's wipe names; {} is each fixed disk
  method=$(ordered wipe_method) wipes=
  method=${method:-signatures}
  refuse_method "$method"
  ordered wipe >"$OCB_RUN/wipe"
  while IFS= read -r hints; do
    [ -n "$hints" ] || continue
    found=$(matching "$hints")
    [ -n "$found" ] || die "no disk matches the hints $hints of the order's wipe"
    wipes="$wipes $found"
  done <"$OCB_RUN/wipe"
  wipes=$(printf '%s\n' "$wipes" | tr ' ' '\n' | awk 'NF && !seen[$0]++')
}

wipe_machine() { # the machine is decommissioned: each disk's end is reported; then it switches itself off
  read_wipes
  left=
  for each in $wipes; do
    say "wipe $each: $method"
    name=$(shown "$each")
    if wipe_disk "$each" "$method" </dev/null; then
      report_disk "$name" "" || die "the end of the erasure of $each was not accepted"
    else
      left="$left $each ($fault)" # before the report, which has a fault of its own
      report_disk "$name" "$fault" || :
    fi
  done
  [ -z "$left" ] || die "not all disks were erased:$left"
  say "erased in $(($(uptime_seconds) - began)) s; waiting for the permission to switch off"
  report erased 100 "" "" $ANSWER_SECONDS || die "the end of the erasure was not accepted"
  await_permission "switch off"
  say "switching off"
  switch_off
}

switch_off() { busybox poweroff -f; }

wipe_disk() { # wipe_disk DISK METHOD: fails with $fault
  let_go "$1"
  erase wipefs --all --force "$1" || return 1
  case $2 in
  signatures) ;;
  discard) erase blkdiscard --force "$1" ;;
  overwrite) erase shred --iterations=0 --zero "$1" ;;
  nvme-format) erase nvme format --force --ses=1 "$1" ;;
  esac
}

erase() { # a program that may fail; its words are then in $fault
  "$@" >"$OCB_RUN/erase" 2>&1 && return 0
  fault="$1 failed: $(tail -n 2 "$OCB_RUN/erase" | tr '\n' ' ' | cut -c1-200)"
  return 1
}
