# shellcheck shell=sh
# Discovery: registers this machine with the join token, and waits until a rule or a person makes it a node.
#
# Each request has a time limit. The waiting has none: a machine may stand in the list of waiting machines for weeks.

LLDP_SECONDS=35 # a switch announces itself every 30 seconds
QUIET_SECONDS=5 # from the registration to the first question: its annealer logs in, and an emulated CPU does one thing at a time

discover() {
  set_clock
  pause=5 secret=$(drawn)
  while :; do
    if register; then
      sleep $QUIET_SECONDS
      while await_adoption; do sleep "$pause"; done
      [ -z "$adopted" ] || break
    fi
    sleep "$pause"
  done
  become "$adopted"
}

drawn() { od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n'; } # 256 bits: a request may be repeated if its answer was lost

register() { # sets $secret, $pause and $registered_as
  described=$(inventory) || {
    say "the inventory could not be taken"
    return 1
  }
  facts=${described%%"
"*} described=${described#*"
"}
  body=
  for each in $(macs); do body="$body, \"$each\""; done
  body="{\"macs\": [${body#, }], \"inventory\": $described, \"host_keys\": [$(json "$(host_key)")], \"secret\": \"$secret\"}"
  if ! call POST /v1/registrations "$(join_header)" "$body"; then
    say "no server took the registration: $fault"
    pause=10
    return 1
  fi
  case $status in
  200 | 201)
    {
      read -r given && read -r pause && read -r registered_as
    } <<END
$(answered .secret .poll_seconds .mac)
END
    pause=${pause:-10} secret=${given:-$secret} described_ports=${facts%% *}
    say "registered: ${facts#* }; waiting"
    ;;
  *)
    evidence registration "$(refusal)"
    case $status in 409) pause=600 ;; *) pause=60 ;; esac # 409: another machine has one of the MACs
    return 1
    ;;
  esac
}

await_adoption() { # true while the machine waits; sets $adopted once it is a node
  adopted=
  if [ "$(uptime_seconds)" -gt $LLDP_SECONDS ] && [ -z "${asked_switch:-}" ]; then
    asked_switch=1
    if [ "$(ports)" -gt "${described_ports:-0}" ]; then return 1; fi # register anew
  fi
  call POST "/v1/registrations/$registered_as/poll" "$(join_header)" "{\"secret\": \"$secret\"}" || {
    say "no server answers: $fault"
    return 0
  }
  case $status in
  2*)
    {
      read -r adopted && read -r token && read -r pause
    } <<END
$(answered .node .token .poll_seconds)
END
    pause=${pause:-10}
    [ -z "$adopted" ] || [ -z "$token" ] || return 1
    adopted= # the next answer has the token
    return 0
    ;;
  404)
    say "the registration is not known any more ($(refusal)); registering again"
    secret=$(drawn)
    return 1
    ;;
  *) # such as a limit of requests
    say "the question was refused: $(refusal)"
    pause=60
    ;;
  esac
}

join_header() { # each request of a machine without a token of its own; its secret tells it from others
  echo "Authorization: Bearer $(cat "$OCB_ETC/join-token" 2>/dev/null)"
}

become() { # become FQDN: the machine is a node; its annealer logs in with the pinned host key
  node=$1
  say "adopted as $node"
  hostname "$node" 2>/dev/null || :
  [ -z "${token:-}" ] || keep_token "$token"
  rest
}

keep_token() { # keep_token TOKEN: readable by root alone
  mkdir -p "$OCB_OWN" && chmod 700 "$OCB_OWN"
  (umask 077 && printf '%s\n' "$1" >"$OCB_OWN/token")
}
