# The machine's side of jig script: takes orders on stdin, and sees to it that at most one run acts on this machine.
#
# Started as: OCB_TOKEN=... sh runner STATE_DIR. Every line that it says begins with a newline and the token, so that it is
# told from what scripts print. Needs a POSIX shell, coreutils (or busybox) and flock, setsid and /proc; starts few programs,
# since each costs a millisecond: what looks roundabout below (reading /proc in the shell, two epoch files) saves one.
#
# In STATE_DIR, for the eyes of its owner only:
#   epoch.0 epoch.1   "EPOCH ROLE@GENERATION EPOCH", written in turn: the higher one counts, a torn one does not
#   lock              held (flock) from an order's first look until what it started is recorded
#   current           the newest run: EPOCH ROLE@GENERATION RUN GROUP ITS_START KEEPER ITS_START BOOT_ID
#   history           one line an event: TIME UPTIME EVENT EPOCH ROLE@GENERATION RUN GROUP DETAIL
#   runs/ROLE@GENERATION/  script, attributes.json, tree, output, written, result; ending, followed
#
# An order meets, in this sequence: a lower epoch is refused; a higher one is recorded on disk; a run of the same role and
# generation that goes on is attached to; one that has finished is adopted; any other is ended, all of it dead, before the
# new one starts. Who waits for a run may vanish: the run has a process group and a keeper of its own, and ends by its time-out.

set -u
umask 077
trap '' HUP
state=$1 token=$OCB_TOKEN here=${0%/*}
unset OCB_TOKEN
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
newline='
'
read -r boot </proc/sys/kernel/random/boot_id
read -r up _ </proc/uptime
[ -e "$here/apart" ] && apart=setsid || apart= # GNU timeout makes a process group of its own, others do not
base=$(($(date +%s) - ${up%.*})) # of the wall clock in the history; what happened before what is told by the uptime

say() { printf '\n%s %s\n' "$token" "$*"; }

note() { # EVENT EPOCH ROLE@GENERATION RUN GROUP DETAIL
  read -r up _ </proc/uptime
  printf '%s %s %s\n' "$((base + ${up%.*}))" "$up" "$*" >>"$state/history"
}

# -- what is alive --

born() { # PID: sets $born to the kernel's start time of the process; false if it is gone, or a zombie
  born=
  { IFS= read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  set -- ${stat##*) }
  case $1 in Z | X) return 1 ;; esac
  born=${20}
}

myself() { # sets $me and $born to those of this very process, which $$ is not in a subshell
  IFS= read -r stat </proc/self/stat
  me=${stat%% *}
  set -- ${stat##*) }
  born=${20}
}

keeper_lives() { [ -n "$c_keeper" ] && born "$c_keeper" && [ "$born" = "$c_keeper_born" ]; }

group_lives() {
  [ -n "$c_group" ] || return 1
  born "$c_group" && [ "$born" = "$c_group_born" ] && return 0
  kill -s 0 -- "-$c_group" 2>/dev/null || return 1
  for process in /proc/[0-9]*; do # somebody is left, or is a zombie that nobody collects
    { IFS= read -r stat <"$process/stat"; } 2>/dev/null || continue
    set -- ${stat##*) }
    case $1 in Z | X) continue ;; esac
    [ "$3" = "$c_group" ] && return 0
  done
  return 1
}

signal_group() { # SIGNAL; before its setsid the leader has no group yet
  kill -s "$1" -- "-$c_group" 2>/dev/null || { born "$c_group" && [ "$born" = "$c_group_born" ] && kill -s "$1" "$c_group"; }
}

look() { # reads what ran last; what ran before a reboot is not alive
  c_key= c_run= c_epoch= c_group= c_group_born= c_keeper= c_keeper_born= c_boot=
  [ -s "$state/current" ] || return 0
  read -r c_epoch c_key c_run c_group c_group_born c_keeper c_keeper_born c_boot <"$state/current"
  [ "$c_boot" = "$boot" ] || c_group= c_keeper=
}

# -- the epoch --

look_epoch() { # sets $seen and $seen_key, empty if there was none, and $slot, where the next one goes
  seen= seen_key= slot=0
  for number in 0 1; do
    [ -s "$state/epoch.$number" ] || continue
    read -r e_epoch e_key e_whole <"$state/epoch.$number"
    [ "$e_whole" = "$e_epoch" ] || continue
    if [ -z "$seen" ] || [ "$e_epoch" -ge "$seen" ]; then
      seen=$e_epoch seen_key=$e_key slot=$((1 - number))
    fi
  done
}

admit() { # 75, with a word to whoever asks, if the order is too old; else its epoch is on disk
  look_epoch
  if [ -n "$seen" ] && [ "$epoch" -lt "$seen" ]; then
    note fence "$epoch" "$key" "$run" - "$seen"
    say FENCED "$seen"
    return 75
  fi
  [ "$epoch" = "$seen" ] && [ "$key" = "$seen_key" ] && return 0
  file=$state/epoch.$slot
  # No rename: the other file holds the last epoch until this one is whole and on disk. Written over in place, with its
  # data alone made durable, it costs the file system no transaction; only its first line is ever read.
  if [ -s "$file" ]; then durable='sync -d'; else durable="sync $state"; fi
  echo "$epoch $key $epoch" 1<>"$file" && { $durable "$file" || sync; } && return 0
  say BROKEN "cannot write $file"
  return 71
}

# -- ending a run --

end_current() { # ends all that lives of the run that was looked at; false if it does not die
  [ -n "$c_key" ] || return 0
  old=$state/runs/$c_key
  if group_lives || keeper_lives; then
    [ -d "$old" ] && echo "$epoch" >"$old/ending" # tells its keeper not to judge it
    signal_group TERM
    await group_lives "signal_group KILL" || return 1
    await keeper_lives 'kill -s KILL "$c_keeper"' || return 1
  fi
  [ -d "$old" ] && [ ! -s "$old/result" ] || return 0
  [ -s "$old/ending" ] && word=ended || word=lost
  note "$word" "$c_epoch" "$c_key" "$c_run" "${c_group:--}" "$epoch"
  echo "$word $epoch" >"$old/result"
}

await() { # CONDITION HARDER: waits until it is false; after two seconds does what is harder, after thirty gives up
  tries=0
  while "$1"; do
    [ $tries -eq 40 ] && eval "$2"
    [ $tries -ge 600 ] && return 1
    tries=$((tries + 1))
    sleep 0.05
  done
}

# -- starting a run --

start() {
  directory=$state/runs/$key offset=0
  case $epoch in *[02468]0) prune ;; esac
  if [ -d "$directory" ]; then rm -f "$directory"/*; else mkdir "$directory"; fi && store ||
    { say BROKEN "cannot write to $directory"; return 1; }
  keep &
  keeper=$!
}

store() { # what came with the order, into the run's directory
  if [ "$payload" = lines ]; then
    printf '%s' "$script" >"$directory/script" && printf '%s' "$attributes" >"$directory/attributes.json" &&
      printf '%s' "$tree" >"$directory/tree"
  else
    mv -f "$incoming/script" "$incoming/attributes.json" "$incoming/tree" "$directory/"
  fi
}

keep() { # in a process of its own, which outlives the connection: starts the script, and writes down how it ended
  exec </dev/null >/dev/null 2>&1 # not where it is called: the shell would keep copies, and the channel open
  myself
  keeper=$me keeper_born=$born
  hundredths
  begun=$hundredths
  act &
  c_group=$! c_group_born=
  exec 8>&-
  wait "$c_group"
  code=$?
  if kill -s KILL -- "-$c_group" 2>/dev/null; then await group_lives true; fi
  [ -s "$directory/ending" ] && exit # whoever ends it writes it down
  hundredths
  word=finished
  case $code in 124 | 137 | 143) [ $((hundredths - begun)) -ge $((timeout * 100)) ] && word=timeout ;; esac
  note end "$epoch" "$key" "$run" "$c_group" "$word $code"
  echo "$word $code" >"$directory/result"
}

act() { # becomes the script; recorded before that, under the lock, so that no run is ever unknown
  myself
  echo "$epoch $key $run $me $born $keeper $keeper_born $boot" >"$state/current" || exit 71
  note start "$epoch" "$key" "$run" "$me" -
  exec >>"$directory/output" 2>&1
  trap - HUP
  umask 022
  export PATH="$here/bin:$PATH" OCB_RUN="$directory" OCB_ATTRIBUTES="$directory/attributes.json" OCB_ROLE="${key%@*}" OCB_NODE="$node"
  interpreter=sh
  IFS= read -r first <"$directory/script"
  case $first in '#!'*) interpreter=${first#??} ;; esac
  exec $apart timeout -k 5 "$timeout" $interpreter "$directory/script" 8>&-
}

hundredths() { # sets $hundredths: the uptime, as a whole number
  read -r up _ </proc/uptime
  hundredths=$((${up%.*} * 100 + 1${up#*.} - 100))
}

prune() { # the newest twenty runs stay, and a megabyte of history
  ls -t "$state/runs" | tail -n +21 | while read -r old; do [ "$old" = "$key" ] || rm -rf "${state:?}/runs/$old"; done
  [ ! -s "$state/history" ] || [ "$(wc -c <"$state/history")" -lt 1048576 ] || mv -f "$state/history" "$state/history.1"
  for old in "$state"/incoming.*; do [ -d "/proc/${old##*.}" ] || rm -rf "$old"; done
}

# -- orders --

lock() {
  exec 8>"$state/lock"
  flock -w 60 8 && return 0
  say BUSY "another order is not finished with"
  return 1
}

decide() { # the five steps; sets $how where there is a run to wait for, and the lock is free again or with its keeper
  how=
  lock && admit || return
  look
  directory=$state/runs/$key
  if [ "$c_key" = "$key" ] && [ ! -s "$directory/result" ] && keeper_lives; then
    how=attached run=$c_run
    note attach "$epoch" "$key" "$run" "$c_group" -
    return
  fi
  word=
  [ -s "$directory/result" ] && read -r word code <"$directory/result"
  case $word in finished | timeout) how=adopted; note adopt "$epoch" "$key" "$run" - "$word $code"; return ;; esac
  end_current || { say BUSY "the run of $c_key, process group $c_group, does not die"; return; }
  if [ "$destructive" = 1 ] && lost; then
    say LOST "$lost"
    return
  fi
  start && how=started
}

lost() { # whether a destructive run of this role and generation may have been started, and nothing tells how it ended
  lost='it was started, and its end was not seen'
  [ -d "$directory" ] && return 0
  [ "$before" != - ] || return 1
  lost='it may have been started: this machine has no record of an earlier order'
  [ -z "$seen" ] || [ "$seen" -ge "$before" ] || [ "$seen_key" = "$key" ]
}

attend() { # waits for the run, and gives its result; who waits decides what to do about a run whose keeper was killed
  case $how in
    started) say STARTED "$run" && wait "$keeper" ;;
    attached)
      say ATTACHED "$run"
      while [ ! -s "$directory/result" ] && keeper_lives; do sleep 0.2; done
      ;;
  esac
  [ -s "$directory/result" ] || await_end
  word=
  [ -s "$directory/result" ] && read -r word code <"$directory/result"
  case $word in
    finished | timeout) give ;;
    ended) say FENCED "$code" ;;
    *) say GONE "what watched over the run was killed" ;;
  esac
}

await_end() { # whoever ends a run writes its result after its keeper is gone
  tries=0
  while [ -s "$directory/ending" ] && [ ! -s "$directory/result" ] && [ $tries -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
  done
}

give() { # the output that is not known yet, what was written, the exit code
  size=-
  if [ "$how" != adopted ] && [ -s "$directory/followed" ]; then
    size=$(($(wc -c <"$directory/output")))
  elif [ -s "$directory/output" ]; then
    say OUTPUT "$offset"
    if [ "$offset" = 0 ]; then cat "$directory/output"; else tail -c "+$((offset + 1))" "$directory/output"; fi
  fi
  if [ -s "$directory/written" ]; then
    say WRITTEN
    cat "$directory/written"
  fi
  say DONE "$how" "$word" "$code" "$run" "$size"
}

order_run() {
  epoch=$1 key=$2 run=$3 node=$4 timeout=$5 destructive=$6 before=$7 offset=$8 payload=$9
  shift 9
  incoming=$state/incoming.$$
  if [ "$payload" = lines ]; then
    take && script=$taken && take && attributes=$taken && take && tree=$taken || exit
  else
    mkdir -p "$incoming"
    head -c "$1" >"$incoming/script" && head -c "$2" >"$incoming/attributes.json" && head -c "$3" >"$incoming/tree" || exit
  fi
  decide
  exec 8>&-
  [ -z "$how" ] || attend
  [ "$payload" = lines ] || rm -rf "$incoming"
}

take() { # a text up to a line that is the token, into $taken; false if the connection ends in it
  taken=
  while IFS= read -r line; do
    [ "$line" = "$token" ] && return 0
    taken=$taken$line$newline
  done
  return 1
}

order_end() {
  epoch=$1 key=$2 run=$3
  if lock && admit; then
    look
    if [ "$c_key" != "$key" ] || end_current; then say ENDED; else say BUSY "process group $c_group does not die"; fi
  fi
  exec 8>&-
}

order_follow() { # the output as it grows, until the other side says or closes something
  directory=$state/runs/$1
  echo "$$" >"$directory/followed" && say FOLLOWING "$2" || exit
  tail -c "+$(($2 + 1))" -f "$directory/output" &
  IFS= read -r line
  kill "$!"
  exit
}

set -f
say READY
while IFS= read -r line; do
  set -- $line
  set +f
  case ${1-} in
    run | end | follow) word=$1 && shift && "order_$word" "$@" ;;
    *) say BROKEN "unknown order" ;;
  esac
  set -f
done
