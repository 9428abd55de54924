# The machine's side of jig script: takes orders on stdin, and lets at most one run act on this machine.
#
# Started as: OCB_TOKEN=... OCB_NOW=SECONDS sh runner STATE_DIR. Every line that it prints begins with a newline and the token, which
# distinguishes it from the output of scripts. Needs a POSIX shell, coreutils (or busybox) and flock, setsid and /proc; starts
# few programs, since each costs a millisecond: each indirect way below (reading /proc in the shell, two epoch files, chattr)
# saves one.
#
# In STATE_DIR, which its owner alone can read:
#   epoch.0 epoch.1   "EPOCH ROLE@GENERATION EPOCH", written in turn: the higher one counts, a torn one does not
#   through.0.BOOT .1.BOOT   hard links to those epoch files that the kernel writes to disk without delay, proved in this boot
#   lock runner.UUID  see "one order at a time"
#   current           the newest run, in the first line: EPOCH ROLE@GENERATION RUN GROUP ITS_START KEEPER ITS_START BOOT
#   history           one line an event: TIME UPTIME EVENT EPOCH ROLE@GENERATION RUN GROUP DETAIL
#   reserve           room for the result of the run that goes on, given up where the disk is full when it ends
#   runs/ROLE@GENERATION.*  of a run: script, attributes.json, tree, output, written, unread, result; ending, followed, flooded
#                     and shed, where its output was removed to make room
#                     of a check: same, told (see "findings of a check"); of put, while it works: wanted.PROCESS
#
# An order meets, in this sequence: a lower epoch is refused; a higher one is recorded on disk; a run of the same role and
# generation that goes on is attached to; one that has finished is adopted; any other is ended, all of it dead, before the
# new one starts. The runner that starts a run is its keeper: it waits for the script and writes down how that ended, whether
# the connection still stands or not. The script has a process group of its own, and a time-out.

set -u
trap '' HUP PIPE # a word on a connection that is gone must not end the keeper of a run
state=$1 token=$OCB_TOKEN now=$OCB_NOW here=${0%/*}
unset OCB_TOKEN OCB_NOW
read -r mine </proc/sys/kernel/random/uuid # not the token: scripts may read the names of files
mine=$state/runner.$mine delayed= keeper_born=
most=67108864 # bytes of output: a run that prints more is ended, and no more of it is sent
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
newline='
'
read -r boot </proc/sys/kernel/random/boot_id
{ IFS= read -r stat </proc/1/stat; } 2>/dev/null || stat=
set -- ${stat##*) }
boot=$boot.${20-} # with the start of the first process: a container has its kernel's boot id, and numbers processes anew
read -r up _ </proc/uptime
[ -e "$here/apart" ] && apart=setsid || apart= # GNU timeout makes a process group of its own, others do not
base=$((now - ${up%.*})) # of the times in the history: the annealer's clock, which asks no program; the uptime gives the order

say() { printf '\n%s %s\n' "$token" "$*"; }

note() { # EVENT EPOCH ROLE@GENERATION RUN GROUP DETAIL
  read -r up _ </proc/uptime
  printf '%s %s %s\n' "$((base + ${up%.*}))" "$up" "$*" >>"$state/history"
} 2>/dev/null

# -- room on the disk --

put() { # WORDS FILE: over its first line; where the disk is full, in the room that is kept aside
  echo "$1" 1<>"$2" && return
  rm -f "$state/reserve"
  echo "$1" 1<>"$2"
} 2>/dev/null

reserve() { # random bytes: a file system can make no hole of them, and cannot compress them
  [ -s "$state/reserve" ] || head -c 65536 /dev/urandom >"$state/reserve"
} 2>/dev/null

shed() { # makes room: removes the outputs of all runs, keeps their results; a file without a byte takes no room, and notes it
  for printed in "$state"/runs/*.output; do [ ! -s "$printed" ] || { true >"$printed" && true >"${printed%.output}.shed"; }; done
  rm -f "$state/history.1"
} 2>/dev/null

removed() { # FROM: sets $removed to the line in place of output that shed removed, for a reader from the first byte on
  removed=
  [ "$1" != 0 ] || [ ! -e "$files.shed" ] || removed="-- output was removed here: the disk was full --$newline"
}

shorten() { # FILE: an output that was long keeps its end
  tail -c 65536 "$1" >"$state/incoming.$$.end" && mv -f "$state/incoming.$$.end" "$1" || true >"$1"
} 2>/dev/null

refuse() { # FILE: there is no room to take the order: that is its failure, unless its run may go on already
  word=BROKEN
  [ ! -e "$state/runs/$key.script" ] || word=BUSY
  say "$word" "cannot write to $1: $(fullness)"
}

fullness() { # prints how full the disk is
  set -- $(df -P "$state" 2>/dev/null | tail -n 1)
  echo "${6-its disk} is ${5-?} full"
}

# -- processes that are alive --

born() { # PID: sets $born to the kernel's start time of the process, or to nothing if it is gone; false then, and for a zombie
  born=
  { IFS= read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  set -- ${stat##*) }
  born=${20}
  case $1 in Z | X) return 1 ;; esac
}

myself() { # sets $me and $born to those of this very process, which $$ is not in a subshell
  IFS= read -r stat </proc/self/stat
  me=${stat%% *}
  set -- ${stat##*) }
  born=${20}
}

keeper_lives() { # a runner that has written the result, or takes this very order, keeps no run any more
  [ -n "$c_keeper" ] && [ "$c_keeper" != $$ ] && [ ! -s "$state/runs/$c_key.result" ] &&
    born "$c_keeper" && [ "$born" = "$c_keeper_born" ]
}

group_lives() {
  [ -n "$c_group" ] || return 1
  if born "$c_group"; then [ "$born" = "$c_group_born" ]; return; fi
  case $born in '' | "$c_group_born") ;; *) return 1 ;; esac # no process gets the number of a group that lives: that one is gone
  kill -s 0 -- "-$c_group" 2>/dev/null || return 1
  for process in /proc/[0-9]*; do # a process of the group is left, or a zombie that its parent does not collect
    { IFS= read -r stat <"$process/stat"; } 2>/dev/null || continue
    set -- ${stat##*) }
    case $1 in Z | X) continue ;; esac
    [ "$3" = "$c_group" ] || continue
    # of a run with a result all is dead but what no signal ends: another group may have got its number
    [ ! -s "$state/runs/$c_key.result" ] || grep -qsF "OCB_RUN=$state/runs/$c_key" "$process/environ" || continue
    return 0
  done
  return 1
}

signal_group() { # SIGNAL; before its setsid the leader has no group yet
  group_lives || return
  kill -s "$1" -- "-$c_group" 2>/dev/null || { born "$c_group" && [ "$born" = "$c_group_born" ] && kill -s "$1" "$c_group"; }
}

look() { # reads the newest run; a run from before a reboot is not alive
  c_key= c_run= c_epoch= c_group= c_group_born= c_keeper= c_keeper_born= c_boot=
  read -r c_epoch c_key c_run c_group c_group_born c_keeper c_keeper_born c_boot <"$state/current"
  [ "$c_boot" = "$boot" ] || c_group= c_keeper=
} 2>/dev/null

newest() { # whether the newest run is $run; sets $n_epoch and $n_key to those of the newest
  n_epoch= n_key= n_run=
  read -r n_epoch n_key n_run _ <"$state/current" && [ "$n_run" = "$run" ]
} 2>/dev/null

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

admit() { # 75, with an answer, if the order is too old; else its epoch is on disk
  look_epoch
  if [ -n "$seen" ] && [ "$epoch" -lt "$seen" ]; then
    note fence "$epoch" "$key" "$run" - "$seen"
    say FENCED "$seen"
    return 75
  fi
  noted=$key
  ! forgetful || noted=- # a repeated order must get the same answer
  [ "$epoch" = "$seen" ] && [ "$noted" = "$seen_key" ] && return 0
  record_epoch && return 0
  refuse "$state/epoch.$slot"
  return 71
}

record_epoch() { # on disk when this returns
  # No rename: the other file holds the last epoch until this one is whole and on disk. Written over in place, with its
  # data alone made durable, it costs the file system no transaction; only its first line is ever read.
  file=$state/epoch.$slot
  if [ ! -s "$file" ]; then
    echo "$epoch $noted $epoch" 1<>"$file" && { sync "$file" "$state" || sync; } && { write_through || :; }
  elif [ "$file" -ef "$state/through.$slot.$boot" ] || write_through; then
    echo "$epoch $noted $epoch" 1<>"$file"
  else
    echo "$epoch $noted $epoch" 1<>"$file" && { sync -d "$file" || sync; }
  fi
}

write_through() { # has the kernel write this file to disk without delay; not every file system can, and one that cannot is asked once
  # The link is the proof. It counts for one boot: a copy of the directory may have lost the attribute, and kept the link.
  [ -z "$delayed" ] || return
  chattr +S "$file" || { delayed=1; return 1; }
  rm -f "$state/through.$slot".*
  ln "$file" "$state/through.$slot.$boot" || :
} 2>/dev/null

# -- ending a run --

end_current() { # ends all processes of the run that look found; false, and the reason in $stays, if it cannot
  stays="the run of $c_key, process group $c_group, does not die"
  old=$state/runs/$c_key
  if group_lives || keeper_lives; then
    [ -e "$old.script" ] && put "$epoch" "$old.ending" # tells its keeper that it does not end by itself
    signal_group TERM
    await group_lives "signal_group KILL" || return 1
    await keeper_lives 'kill -s KILL "$c_keeper"' || return 1
  fi
  [ -e "$old.script" ] && [ ! -s "$old.result" ] || return 0
  [ -s "$old.ending" ] && word=ended || word=lost
  note "$word" "$c_epoch" "$c_key" "$c_run" "${c_group:--}" "$epoch"
  put "$word $epoch" "$old.result" && return
  shed
  stays="cannot write $old.result: $(fullness)"
  put "$word $epoch" "$old.result"
}

end_forgotten() { # ends the runs that still live although the state directory, which was removed, has no record of them
  forgotten_live || return 0
  [ -z "$keepers" ] || kill -s KILL $keepers 2>/dev/null # first: their results would be taken for those of another run
  kill -s TERM -- $groups 2>/dev/null
  await forgotten_live 'kill -s KILL -- $groups 2>/dev/null'
}

forgotten_live() { # sets $groups and $keepers to those of every run that lives, without daemons that a script left running
  groups= keepers=
  for process in $(grep -lsF "OCB_RUN=$state/runs/" /proc/[0-9]*/environ); do
    process=${process%/environ}
    { IFS= read -r stat <"$process/stat"; } 2>/dev/null || continue
    set -- ${stat##*) }
    case $1 in Z | X) continue ;; esac
    [ "${process#/proc/}" = "$3" ] && grep -qsF "$state/runs/" "$process/cmdline" || continue # the script itself leads its group
    [ "$process/root" -ef / ] 2>/dev/null || continue # it is in a container
    groups="$groups -$3"
    if grep -qsF "$state/runner-" "/proc/$2/cmdline"; then keepers="$keepers $2"; fi
  done
  [ -n "$groups" ]
}

await() { # CONDITION HARDER: waits until it is false; after two seconds runs HARDER, after thirty gives up
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
  offset=0
  if crowded; then prune; fi
  if [ -e "$files.script" ]; then clear_away; fi
  if [ -e "$state/runs/$c_key.followed" ] && [ "$(wc -c <"$state/runs/$c_key.output")" -gt 1048576 ]; then
    shorten "$state/runs/$c_key.output"
  fi
  reserve && store || { shed && reserve && store; } || { say BROKEN "cannot write to $files.script: $(fullness)"; return 1; }
  [ -n "$keeper_born" ] || { myself && keeper_born=$born; }
  hundredths
  begun=$hundredths
  act &
  c_key=$key c_group=$! c_group_born= # no process has this number while we wait for it
}

clear_away() { # the files of an earlier run of this role and generation; its result goes when this run is recorded: until then
  # "current" names the keeper of the earlier one, which may have other runs to wait for by now
  set --
  for old in "$files".*; do [ "$old" = "$files.result" ] || set -- "$@" "$old"; done
  rm -f "$@"
}

store() { # writes the parts of the order into the run's files
  true >>"$files.output" || return
  [ "$argument" = - ] || { true >"$files.same" && true >"$files.told"; } || return
  if [ "$payload" = lines ]; then
    printf '%s' "$script" >"$files.script" && printf '%s' "$attributes" >"$files.attributes.json" &&
      printf '%s' "$tree" >"$files.tree"
  else
    for part in script attributes.json tree; do mv -f "$incoming/$part" "$files.$part" || return; done
  fi
}

keep() { # waits for the script, and writes down how it ended: $word and $code; false, with an answer, if it never began
  # A keeper that cannot write it down ends, which alone tells all others.
  wait "$c_group" 2>/dev/null # a shell may tell of the signal that ended it
  code=$?
  if kill -s KILL -- "-$c_group" 2>/dev/null; then await group_lives true; fi
  [ -e "$files.script" ] || { say GONE "its files were removed from $state while it ran"; leave; }
  if [ "$code" -eq 71 ] && ! newest; then
    say BROKEN "cannot write to $files.output and $state/current: $(fullness)"
    clear_away
    return 1
  fi
  if [ -s "$files.ending" ]; then
    word=ended
    read -r code <"$files.ending"
    note ended "$epoch" "$key" "$run" "$c_group" "$code"
  else
    [ "$code" -ne 0 ] || judge
    hundredths
    word=finished
    case $code in 124 | 137 | 143) [ $((hundredths - begun)) -ge $((timeout * 100)) ] && word=timeout ;; esac
    [ ! -e "$files.flooded" ] || word=flooded
    note end "$epoch" "$key" "$run" "$c_group" "$word $code" || {
      rm -f "$state/reserve"
      note end "$epoch" "$key" "$run" "$c_group" "$word $code"
    }
  fi
  put "$word $code" "$files.result" || { shed; put "$word $code" "$files.result"; } || {
    say GONE "cannot write $files.result: $(fullness)"
    leave
  }
}

# -- findings of a check --
#
# The library removes $files.same where something differs, and $files.told where it cannot compare. It does so at once, so the
# script cannot undo it. A check that ends with 0 counts only where both are left.

judge() { # sets $code of a check that ended with 0
  [ "$argument" != - ] || return 0
  [ -e "$files.told" ] || code=1
  [ -e "$files.same" ] || code=2
}

watch() { # in a process of its own, as long as the run goes on: ends a run that prints too much
  exec </dev/null >/dev/null 2>&1
  while sleep 0.5; keeper_lives; do # at first the result may be that of an earlier run
    if [ "$(wc -c <"$files.output")" -gt "$most" ]; then
      true >"$files.flooded"
      signal_group TERM
      await group_lives "signal_group KILL"
      return
    fi
  done
}

act() { # becomes the script; recorded before that, under the lock, so that no run is ever unknown
  { true >>"$files.output"; } 2>/dev/null || exit 71 # where exec fails, it ends the shell with the code of a script
  exec >>"$files.output" 2>&1 # first: the channel must not stay open for as long as the run
  myself
  put "$epoch $key $run $me $born $$ $keeper_born $boot" "$state/current" || exit 71
  [ ! -e "$files.result" ] || true >"$files.result" # of an earlier run, which "current" named until now
  note start "$epoch" "$key" "$run" "$me" - # before the next order may end it: its "ended" must stand behind
  unlock
  exec 7>&-
  trap - HUP PIPE
  umask 022
  export PATH="$here/bin:$PATH" OCB_LIBRARY="$here/library.sh"
  export OCB_RUN="$files" OCB_ATTRIBUTES="$files.attributes.json" OCB_ROLE="${key%@*}" OCB_NODE="$node"
  interpreter=sh
  IFS= read -r first <"$files.script"
  case $first in '#!'*) interpreter=${first#??} ;; esac
  [ "$argument" = - ] || export OCB_CHECK=1
  [ "$argument" = --check ] || argument=
  exec $apart timeout -k 5 "$timeout" $interpreter "$files.script" $argument
}

hundredths() { # sets $hundredths: the uptime, as a whole number
  read -r up _ </proc/uptime
  hundredths=$((${up%.*} * 100 + 1${up#*.} - 100))
}

crowded() { # whether there are forty runs already
  set -- "$state"/runs/*.script
  [ $# -ge 40 ]
}

prune() { # the newest twenty runs stay, and a megabyte of history; files that were left half done go
  runs=0 kept=" $c_key " # the times of files tell nothing of the newest run where the clock was set back
  names=$(ls -t "$state/runs")
  for old in $names; do
    case $old in *.script) [ $runs -lt 20 ] && runs=$((runs + 1)) kept="$kept${old%.script} " ;; esac
  done
  set --
  for old in $names; do
    run_of=${old##*@}
    case $kept in *" ${old%@*}@${run_of%%.*} "*) ;; *) set -- "$@" "$state/runs/$old" ;; esac
  done
  for old in "$state"/incoming.* "$state"/install.* "$state"/new-*.*; do
    [ -d "/proc/${old##*.}" ] || set -- "$@" "$old"
  done
  rm -rf "$@"
  for old in $(find "$state/history" "$state/runs" -name '*.output' -size +2048 -o -name history -size +2047); do
    case $old in *.output) shorten "$old" ;; *) mv -f "$old" "$old.1" ;; esac
  done
} 2>/dev/null

# -- orders --

# -- one order at a time --
#
# An order is handled alone, from its first look until the run that it starts is recorded. As a rule a machine has one runner,
# so flock is called once for each runner and not for each order. A runner's file runner.UUID says whether it is busy, and is
# locked (fd 7) as long as it lives, and as long as a child of it that has yet to record a run. A runner says that it is busy
# and then looks for others: alone, it may decide. If it is not, it is idle again, takes the lock (fd 8) as all the others do,
# and waits for the runner that was busy before. Of two that meet, at least one sees the other.

lock() {
  [ -e "$mine" ] || enrol || return
  { echo busy 1<>"$mine" || { shed; echo busy 1<>"$mine"; }; } 2>/dev/null || { refuse "$mine"; return 1; }
  alone && return 0
  echo idle 1<>"$mine"
  exec 8>"$state/lock"
  flock -w 60 8 && others_idle && return 0
  say BUSY "another order is not finished with"
  return 1
}

unlock() {
  echo idle 1<>"$mine"
  exec 8>&-
}

enrol() { # makes our file, and removes those of runners that are gone
  until [ -e "$mine" ]; do # it is gone again if another took us for dead between the making and the locking
    exec 7>>"$mine"
    command -v flock >/dev/null || { say BROKEN "flock is not on this machine; install util-linux"; return 1; }
    flock -w 60 7 || { say BROKEN "cannot lock $mine"; return 1; }
  done
  for other in "$state"/runner.*; do [ "$other" = "$mine" ] || flock -n "$other" rm -f "$other"; done
  return 0
}

leave() { # ends this runner
  [ ! -e "$mine" ] || rm -f "$mine"
  exit
}

alone() {
  for other in "$state"/runner.*; do [ "$other" = "$mine" ] || return 1; done
}

others_idle() {
  for other in "$state"/runner.*; do [ "$other" = "$mine" ] || await other_busy 'flock -n "$other" rm -f "$other"' || return 1; done
}

other_busy() { [ -e "$other" ] && read -r word <"$other" && [ "$word" = busy ]; }

same() { # whether the run of this role and generation has the inputs of this order
  if [ "$payload" = lines ]; then
    [ "$(cat "$files.script" && echo .)" = "$script." ] && [ "$(cat "$files.attributes.json" && echo .)" = "$attributes." ]
  else
    for part in script attributes.json; do
      [ "$(cat "$files.$part" && echo .)" = "$(cat "$incoming/$part" && echo .)" ] || return
    done
  fi
} 2>/dev/null

decide() { # the five steps; sets $how where there is a run to wait for; the lock is still held, maybe by the run that was started
  how=
  differs=
  lock && admit || return
  look
  files=$state/runs/$key
  if [ "$c_key" = "$key" ] && [ -e "$files.script" ] && keeper_lives; then
    how=attached run=$c_run
    same || differs=1
    note attach "$epoch" "$key" "$run" "$c_group" -
    return
  fi
  word=
  [ -s "$files.result" ] && read -r word code <"$files.result"
  case $word in finished | timeout | flooded) how=adopted; same || differs=1; note adopt "$epoch" "$key" "$run" - "$word $code"; return ;; esac
  end_current || { say BUSY "$stays"; return; }
  [ -n "$c_key" ] || end_forgotten || { say BUSY "a run that this machine has no record of does not die"; return; }
  if [ "$destructive" = 1 ] && lost; then
    say LOST "$lost"
    return
  fi
  if again; then
    say GONE "$gone"
    return
  fi
  start && how=started
}

lost() { # whether a destructive run of this role and generation may have been started, and nothing tells how it ended
  lost='it was started, and its end was not seen'
  [ -e "$files.script" ] && return 0
  [ "$before" != - ] || return 1
  lost='it may have been started: this machine has no record of an earlier order'
  [ -z "$seen" ] || [ "$seen" -ge "$before" ] || [ "$seen_key" = "$key" ]
}

again() { # whether this very order may have started its run before: a start now is another attempt
  gone='the keeper of the run was killed'
  [ "$c_key" = "$key" ] && [ "$c_run" = "$run" ] && return 0
  gone='it may have been started: this machine has no record of an earlier order'
  forgetful
}

forgetful() { # whether an order was given before, and this machine lost its memory since
  [ -z "$quiet" ] && { [ -z "$seen" ] || { [ "$seen" = "$epoch" ] && [ "$seen_key" = - ]; }; }
}

attend() { # waits for the run, and gives its result; the caller decides about a run with a keeper that was killed
  case $how in
    started)
      [ -n "$quiet" ] || say STARTED "$run"
      keep || return
      ;;
    attached)
      say ATTACHED "$run"
      while keeper_lives && newest && [ -e "$files.script" ]; do sleep 0.2; done
      if ! newest && [ "$n_key" = "$key" ]; then # the files are those of another run by now
        say FENCED "$n_epoch"
        return
      fi
      ;;
  esac
  if [ "$how" != started ]; then # the file may be that of the next run
    [ -s "$files.result" ] || await_end
    word=
    [ -s "$files.result" ] && read -r word code <"$files.result"
  fi
  case $word in
    finished | timeout | flooded) give ;;
    ended) say FENCED "$code" ;;
    *) say GONE "the keeper of the run was killed" ;;
  esac
}

await_end() { # the process that ends a run writes its result after its keeper is gone
  tries=0
  while [ -s "$files.ending" ] && [ ! -s "$files.result" ] && [ $tries -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
  done
}

give() { # the output that the other side lacks, the written attributes, the exit code
  size=-
  if [ "$how" != adopted ] && [ -e "$files.followed" ]; then
    size=$(($(wc -c <"$files.output")))
  elif [ -s "$files.output" ] || [ -e "$files.shed" ]; then
    removed "$offset"
    length=$(($(wc -c <"$files.output") - offset + ${#removed}))
    [ $length -le "$most" ] || length=$most
    [ $length -ge 0 ] || length=0
    say OUTPUT "$offset" "$length" # so many bytes are data, also where they look like words of this protocol
    printf %s "$removed"
    length=$((length - ${#removed}))
    if [ "$offset" = 0 ]; then tail -c "$length" "$files.output"; else tail -c "+$((offset + 1))" "$files.output" | head -c "$length"; fi 2>/dev/null
  fi
  if [ -s "$files.written" ]; then
    surplus=$(($(wc -c <"$files.written")))
    if [ "$surplus" -gt 1048576 ]; then say SURPLUS "$surplus"; else say WRITTEN "$surplus" && head -c "$surplus" "$files.written"; fi
  fi
  [ -z "$differs" ] || say OTHER
  say DONE "$how" "$word" "$code" "$run" "$size"
}

order_run() {
  epoch=$1 key=$2 run=$3 node=$4 timeout=$5 destructive=$6 before=$7 offset=$8 argument=$9 payload=${10}
  shift 10
  quiet= # a first order: that it was started is no news, and its DONE tells soon enough
  [ "$offset" != - ] || quiet=1 offset=0
  incoming=$state/incoming.$$
  if [ "$payload" = lines ]; then
    take && script=$taken && take && attributes=$taken && take && tree=$taken || exit
  else
    part "$(($1 + $2 + $3))" | receive "$@"
    received=$?
    IFS= read -r line && [ "$line" = "$token" ] || { rm -rf "$incoming"; exit; } # cut off in the middle: nothing is begun
    [ $received -eq 0 ] || {
      rm -rf "$incoming"
      shed
      if [ "$short" = "$run" ]; then refuse "$incoming"; else say BUSY "cannot write to $incoming: $(fullness)"; fi
      short=$run # asked again, there may be room
      return
    }
  fi
  decide
  if [ "$how" = started ]; then exec 8>&-; else unlock; fi # the run unlocks once it is recorded
  [ -z "$how" ] || attend
  unlock
  [ "$payload" = lines ] || rm -rf "$incoming"
}

part() { # BYTES: so many of stdin, and no byte more: the head of busybox takes more than it prints
  dd bs=65536 iflag=fullblock,count_bytes count="$1" 2>/dev/null
}

receive() { # SIZES: the parts of an order, read to their end even where the disk is full, since the next order follows them
  mkdir -p "$incoming" && part "$1" >"$incoming/script" && part "$2" >"$incoming/attributes.json" &&
    part "$3" >"$incoming/tree" && return
  cat >/dev/null
  return 1
} 2>/dev/null

not_begun() {
  look
  [ "$c_run" != "$run" ] || [ ! -e "$files.output" ]
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
  epoch=$1 key=$2 run=$3 quiet=1 # it begins nothing
  if lock && admit; then
    look
    if [ "$c_key" != "$key" ] || end_current; then say ENDED; else say BUSY "$stays"; fi
  fi
  unlock
}

order_follow() { # KEY RUN OFFSET: the output as it grows, once it was started, until the other side sends or closes something
  files=$state/runs/$1 run=$2
  await not_begun : || exit
  if [ ! -e "$files.followed" ]; then watch & fi
  true >"$files.followed" && say FOLLOWING "$3" || exit
  removed "$3"
  printf %s "$removed"
  tail -c "+$(($3 + 1))" -f "$files.output" 2>/dev/null & # it would tell of a file that shed emptied
  IFS= read -r line
  kill "$!"
  exit
}

short= # the run of the newest order for which there was no room
say READY
while IFS= read -r line; do
  [ -e "$0" ] && [ -d "$state/runs" ] || exit # all was removed: the next order gets a new runner, and room for its files
  set -- $line
  case ${1-} in
    run | end | follow) word=$1 && shift && "order_$word" "$@" ;;
    *) say BROKEN "unknown order" ;;
  esac
done
leave
