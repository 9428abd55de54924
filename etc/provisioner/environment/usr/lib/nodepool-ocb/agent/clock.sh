# shellcheck shell=sh
# The time, before TLS: certificates are judged by it.
#
# NTP servers of the site (/etc/ocb/ntp, one a line) and of DHCP come first. Without an answer of theirs the clock is set
# from the Date header of the admin node's HTTP server. Neither is authenticated: a wrong time makes TLS fail, and no more.

NTP_SECONDS=15
ODD_SECONDS=30 # a difference below this stays

set_clock() {
  servers=$(cat "$OCB_ETC/ntp" 2>/dev/null) servers="$servers $(leased_ntp)"
  for each in $servers; do
    if ntp_once "$each"; then
      say "clock: $(date -u +%FT%TZ) from NTP server $each"
      return 0
    fi
    say "clock: NTP server $each did not answer in $NTP_SECONDS s"
  done
  clock_of_http || evidence clock "the time is not known: no NTP server and no HTTP server answered; the clock says $(date -u +%FT%TZ)"
}

leased_ntp() { sed -n "s/.*ntp='\([^']*\)'.*/\1/p" /run/ocb-lease 2>/dev/null; }

ntp_once() { chronyd -q -t "$NTP_SECONDS" "server $1 iburst maxsamples 1" >/dev/null 2>&1; }

clock_of_http() {
  server=$(argument ocb.server)
  [ -n "$server" ] || return 1
  there=$(curl --silent --head --max-time 10 --output /dev/null --write-out '%header{date}' "${server%/}/")
  [ -n "$there" ] || return 1
  then=$(date -u -d "$there" +%s) || return 1
  odd=$((then - $(date -u +%s)))
  if [ "${odd#-}" -gt $ODD_SECONDS ]; then
    set_seconds "$then"
    say "clock: it was wrong by $odd s, and is $(date -u +%FT%TZ) now from the Date header of $server"
  fi
}

set_seconds() { date -u -s "@$1" >/dev/null; }
