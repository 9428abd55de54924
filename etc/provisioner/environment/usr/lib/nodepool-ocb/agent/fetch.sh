# shellcheck shell=sh
# The image, fetched in pieces: a lost connection costs one piece. The SHA-256 is computed before a piece is written.

PIECE_BYTES=33554432
FETCH_SECONDS=3600 # for the whole image
STALL_SECONDS=30   # without a byte
BUSY_SECONDS=14400 # of waiting for a place at servers that send as many images as they may; it counts beside FETCH_SECONDS

# fetch SIZE SUM SINK URL...: gives each piece to "SINK FILE OFFSET". Dies if the image has another SHA-256 than SUM, or does not
# come in time; each URL is tried in turn.
fetch() {
  size=$1 sum=$2 sink=$3
  shift 3
  piece=$OCB_RUN/piece sums=$OCB_RUN/sums
  rm -f "$sums" "$OCB_RUN/sum"
  mkfifo "$sums"
  sha256sum <"$sums" >"$OCB_RUN/sum" &
  summing=$!
  exec 3>"$sums"
  at=0 failures=0 waited=0 fetching_since=$(uptime_seconds)
  reported=$fetching_since # a quick fetch needs no word of its progress
  while [ "$at" -lt "$size" ]; do
    end=$((at + PIECE_BYTES < size ? at + PIECE_BYTES : size))
    if fetch_piece "$1" "$at" "$end"; then
      cat "$piece" >&3
      "$sink" "$piece" "$at" || die "writing to the disk failed at $at bytes: $(tail -n 1 "$OCB_RUN/sink" 2>/dev/null)"
      at=$end
      progress fetched $((at * 100 / size))
    elif [ "$code" = 503 ]; then
      [ "$waited" -gt 0 ] || say "fetch: $1 sends other images now; waiting for a place"
      [ "$waited" -lt $BUSY_SECONDS ] || die "no server had a place for the image in $BUSY_SECONDS seconds; $at of $size bytes are here"
      pause=$((2 + ($$ + waited) % 4)) # not all machines at the same time
      waited=$((waited + pause)) fetching_since=$((fetching_since + pause))
      first=$1
      shift
      set -- "$@" "$first" # the next server
      sleep $pause
    else
      failures=$((failures + 1))
      say "fetch: $1 at $at of $size bytes: $fault; trying again"
      if [ $(($(uptime_seconds) - fetching_since)) -ge $FETCH_SECONDS ]; then
        die "the image was not fetched in $FETCH_SECONDS seconds; $at of $size bytes are here; last: $fault"
      fi
      first=$1
      shift # the next server; one without the image is not asked again
      if [ "$code" != 404 ]; then
        set -- "$@" "$first"
      elif [ $# = 0 ]; then
        die "the server has no $first"
      fi
      sleep $((failures < 10 ? failures : 10))
    fi
  done
  exec 3>&-
  wait "$summing"
  rm -f "$piece" "$sums"
  found=$(cut -d' ' -f1 "$OCB_RUN/sum")
  [ "$found" = "$sum" ] || die "the image has the SHA-256 $found instead of $sum; nothing boots from this disk"
}

fetch_piece() { # fetch_piece URL FROM END: bytes FROM to END - 1 in $piece; sets $fault
  code=$(curl --silent --show-error --connect-timeout 10 --speed-limit 1 --speed-time $STALL_SECONDS \
    --max-time 900 --max-filesize $((PIECE_BYTES + 1)) --range "$2-$(($3 - 1))" --output "$piece" --write-out '%{http_code}' "$1" \
    2>"$OCB_RUN/curl")
  result=$?
  fault=$(head -n 1 "$OCB_RUN/curl")
  if [ "$result" = 0 ] && [ "$code" = 206 ] && [ "$(stat -c %s "$piece")" = $(($3 - $2)) ]; then return 0; fi
  fault="status $code${fault:+, $fault}"
  return 1
}
