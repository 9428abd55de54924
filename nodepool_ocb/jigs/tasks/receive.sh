# Receives a directory that an annealer pushes with rsync. Needs $src $dst $noop, and the functions of place.sh.
#
# The pushing annealer has made two pipes beside this run's files, RUN.push.TOKEN.in and .out, and written its epoch to .call.
# Here RUN.push.TOKEN.go marks that they are open. The first line that comes is the command; the rest is the protocol of rsync.
# A later call replaces the former one, unless its epoch is lower than one that this machine has seen. No process of the former
# transfer lives when the next one begins. The end of rsync here is not the end: the pushing annealer writes a .verdict with the
# exit code and the output of its own rsync. Until then the next one may call. Only the verdict of the newest call counts.

push=$OCB_RUN.push
state=${OCB_RUN%/runs/*}
served= current= epoch=

newest() { # the highest epoch that this machine has seen
  highest=0
  for file in "$state"/epoch.[01]; do
    { read -r seen _ whole <"$file"; } 2>/dev/null && [ "$seen" = "$whole" ] && [ "$seen" -gt "$highest" ] && highest=$seen
  done
  echo "$highest"
}

living() { # sets $living to the processes that have the file of the transfer open
  living=
  for process in /proc/[0-9]*; do
    [ "$process/fd/9" -ef "$push.alive" ] 2>/dev/null && living="$living ${process#/proc/}"
  done
  [ -n "$living" ]
}

stop() { # ends the transfer that goes on: all of it is dead when this returns
  [ -n "$served" ] || return 0
  kill -s KILL "$served" 2>/dev/null
  wait "$served" 2>/dev/null
  while living; do
    kill -s KILL $living 2>/dev/null
    sleep 0.05
  done
  served=
}

serve() { # PIPES
  exec 9>>"$push.alive"
  exec <"$1.in" >"$1.out"
  : >"$1.go"
  IFS= read -r words
  case $words in
    "rsync --server "*[!A-Za-z0-9%\ ._=,-]* | "rsync --server --sender "*) echo "no command to receive: $words" >&2; exit 65 ;;
    "rsync --server "*) exec $words ;;
    *) echo "no command to receive: $words" >&2; exit 65 ;;
  esac
}

judge() { # the newest transfer has its verdict
  if [ "$epoch" -lt "$(newest)" ]; then
    rm -f "$push.$current.verdict"
    return
  fi
  code=
  { read -r code; said=$(cat); } <"$push.$current.verdict"
  [ -z "$said" ] || printf '%s\n' "$said"
  if [ "$code" = 0 ]; then
    wait "$served"
    code=$?
    said="the machine's own ended so"
  fi
  [ "$code" = 0 ] || stop
  rm -f "$push".*
  [ "$code" != 0 ] || exit 0
  printf 'task: rsync: exit code %s: %s\n' "$code" "$(printf '%s\n' "$said" | head -n 1)"
  exit "$code"
}

command -v rsync >/dev/null || refuse "there is no program rsync on this machine; install the package rsync"
if [ -n "$noop" ] && [ ! -d "$dst" ]; then
  echo "would make the directory $dst, and copy all of $src to it"
  exit 0
fi
ocb_enter "$dst" 0755
: >"$push.alive"
while :; do
  for call in "$push".*.call; do
    [ -s "$call" ] || continue
    read -r asked <"$call"
    rm -f "$call"
    [ "$asked" -ge "$(newest)" ] || { echo "a push under epoch $asked comes too late"; continue; }
    stop
    token=${call%.call} current=${token##*.} epoch=$asked
    serve "$push.$current" &
    served=$!
  done
  if [ -n "$current" ] && [ -s "$push.$current.verdict" ]; then judge; fi
  sleep 0.1
done
