# shellcheck shell=sh
# Requests to the API, over TLS with the pinned certificate. Tokens stand in files, never in the arguments of a program.

CALL_SECONDS=60

servers() { # the addresses of the API, one a line
  listed=$(argument ocb.api)
  if [ -n "$listed" ]; then
    echo "$listed" | tr ',' '\n'
  else
    cat "$OCB_ETC/api"
  fi
}

# call METHOD PATH HEADER [BODY]: asks one server after the other. Sets $status (000 without any answer) and $fault, and
# leaves the body in $OCB_RUN/answer. Fails if no server answered, or each with a status of 500 and above.
call() {
  printf '%s\n' "$3" >"$OCB_RUN/header"
  printf '%s' "${4:-}" >"$OCB_RUN/body"
  status=000 fault="no address of the API: neither ocb.api nor $OCB_ETC/api"
  for server in $(servers); do
    : >"$OCB_RUN/answer"
    status=$(curl --silent --show-error --cacert "$OCB_ETC/ca.pem" --connect-timeout 10 --max-time $CALL_SECONDS \
      --max-filesize 8388608 --request "$1" --header "@$OCB_RUN/header" --header 'Content-Type: application/json' \
      --data-binary "@$OCB_RUN/body" --output "$OCB_RUN/answer" --write-out '%{http_code}' \
      "${server%/}$2" 2>"$OCB_RUN/curl")
    code=$?
    [ -s "$OCB_RUN/curl" ] && fault="$server: $(head -n 1 "$OCB_RUN/curl")" || fault="$server: status $status"
    case $code in 35 | 51 | 58 | 60 | 77) evidence tls "$fault (the clock of this machine says $(date -u +%FT%TZ))" ;; esac
    case $code:$status in 0:[234]*) return 0 ;; esac
  done
  return 1
}

answered() { # answered JQ-FILTER...: values of the last answer, one a line; an absent one is an empty line
  filters=
  for each in "$@"; do filters="$filters, ($each)"; done
  jq --raw-output ".answer | ${filters#, } | if . == null then \"\" else . end" <"$OCB_RUN/answer" 2>/dev/null
}

refusal() { # the reason of the last answer, in one line
  text=$(jq --raw-output '.detail? // .title? // empty' <"$OCB_RUN/answer" 2>/dev/null)
  echo "status $status${text:+: $(echo "$text" | tr '\n' ' ' | cut -c1-300)}"
}

evidence() { # evidence WORD REASON: a request that the log of the HTTP server keeps, where the API cannot be told
  say "$1: $2"
  server=$(argument ocb.server)
  [ -z "$server" ] || curl --silent --max-time 10 --output /dev/null --get --data-urlencode "reason=$2" \
    "${server%/}/agent/${mac:-unknown}/$1" 2>/dev/null || :
}

own_header() {
  read -r own <"$OCB_OWN/token"
  echo "Authorization: Bearer $own"
}

report_disk() { # report_disk DISK REASON: a disk has lost its data, or with a reason: it has not
  reported_disk=$1
  report wiped 0 "$2"
  code=$?
  reported_disk=
  return $code
}

# report STEP PERCENT [REASON [CHECKSUM [WAIT]]]: of an installation; some tries. A refusal ends the agent's work in this boot:
# the installation is over, and this machine must write no more. With WAIT the server answers at most so many seconds later,
# once this machine may leave the environment. One try waits: a proxy may cut it, and a server of before refuses it. A node that is
# out of service after an erasure has taken the report.
report() {
  body="{\"step\": $(json "$1"), \"percent\": $2"
  [ -z "${3:-}" ] || body="$body, \"reason\": $(json "$3")"
  [ -z "${4:-}" ] || body="$body, \"checksum\": $(json "$4")"
  [ -z "${reported_disk:-}" ] || body="$body, \"disk\": $(json "$reported_disk")"
  tries=${REPORT_TRIES:-5}
  while [ "$tries" -gt 0 ]; do
    if call POST "/v1/nodes/$node/installation/report${5:+?wait=$5}" "$(own_header)" "$body}"; then
      case $1:$status:${5:-} in
      *:2*:* | erased:40[14]:) return 0 ;;
      *:422:?*)
        set -- "$1" "$2" "${3:-}" "${4:-}"
        continue
        ;;
      esac
      say "FAILED: the report $1 was refused, so the installation is over: $(refusal)"
      exit 1
    fi
    set -- "$1" "$2" "${3:-}" "${4:-}"
    tries=$((tries - 1))
    [ "$tries" = 0 ] || sleep 3
  done
  say "no server took the report $1: ${fault:-}"
  return 1
}

progress() { # progress STEP PERCENT: one try, at most one report in 15 seconds
  now=$(uptime_seconds)
  [ "$now" -ge $((${reported:--15} + 15)) ] || return 0
  reported=$now
  REPORT_TRIES=1 report "$1" "$2" || :
}

report_failure() { # only an installing machine with its own token can report
  case ${mode:-} in install | rescue) ;; *) return 0 ;; esac
  [ -s "$OCB_OWN/token" ] || return 0
  report failed 0 "$1" || evidence failed "$1"
}
