# Functions for the scripts of roles. A script that uses them begins with: . "$OCB_LIBRARY"
#
# Sets $root: the prefix of the path of every file that is written, without a slash at its end. It is OCB_ROOT, else the
# attribute ocb/root; empty where that is /, the machine's own files. Needs a POSIX shell, and nothing that the runner does not.
#
# A shell sees only the failure of the last command of a pipe, and none inside a word. So a script reads into a variable
# first, by a command of its own: text=$(read_attribute a/b); lines "$text" | put FILE. Where read_attribute or items feeds put
# itself and fails, put refuses: the pipe is noted in $OCB_RUN.unread before it is closed.

#
# In a check a script changes nothing: put and put_for show how a file differs from its wanted content, and note that at once for
# the runner, which judges a script that ended with 0 by the note: no trap, subshell or exec of the script loses a difference.
# The note is the absence of a file that the runner made, which needs no room on a disk that is full. Other actions of a script
# must ask `checking`, and do nothing in a check.

root=${OCB_ROOT:-$(read_attribute ocb/root /)}
root=${root%/}
. "${OCB_LIBRARY%/*}/files.sh"
ocb_as= # the user of `as`

checking() { [ -n "${OCB_CHECK-}" ]; }

read_attribute() {
  ocb_watch
  command read_attribute "$@"
}

ocb_watch() { # in a subshell: if it ends by a failure, its output is noted
  read -r ocb_pid _ </proc/self/stat
  [ "$ocb_pid" = $$ ] || trap '[ $? -eq 0 ] || { readlink /proc/self/fd/9 >>"$OCB_RUN.unread"; } 9>&1' EXIT
}

ocb_unread() { # whether the command that feeds stdin has failed
  [ -e "$OCB_RUN.unread" ] && ocb_pipe=$(readlink /proc/self/fd/0) && grep -qxF "$ocb_pipe" "$OCB_RUN.unread"
}

ocb_want() { # MODE OWNER: stdin becomes $ocb_wanted; sets $ocb_mode and $ocb_owner as chmod and chown read them
  ocb_owner=${2:-${ocb_as:+$ocb_as:}}
  read -r ocb_pid _ </proc/self/stat
  ocb_wanted=$OCB_RUN.wanted.$ocb_pid # two may be at work
  rm -f "$ocb_wanted" && cat >"$ocb_wanted" || return
  [ -z "$ocb_owner" ] || chown "$ocb_owner" "$ocb_wanted" || return
  [ -z "$1" ] || chmod "$1" "$ocb_wanted" || return
  ocb_facts=$(stat -c '%a %u:%g' "$ocb_wanted") || return
  ocb_mode=${1:+${ocb_facts% *}}
}

ocb_put() { # KIND PATH WANTED OWNER SAID: in a check prints and notes differences, else makes the file as wanted
  ocb_verb=ocb_establish
  ! checking || ocb_verb=ocb_examine
  if ocb_with "$ocb_verb" "$1" "$2" "$3" "$4" <"$ocb_wanted" 5<"$ocb_wanted" 6<"$ocb_wanted"; then
    return
  else
    case $? in
      2) rm -f "$OCB_RUN.same" ;;
      3) echo "$5" ;;
      *) return 1 ;;
    esac
  fi
}

ocb_with() { # COMMAND...: in a subshell, and with the rights of $ocb_as where that is set
  if [ -z "$ocb_as" ]; then
    "$@"
    return
  fi
  ocb_uid=$(id -u "$ocb_as") && ocb_gid=$(id -g "$ocb_as") || return
  [ "$ocb_own" = 0 ] || { echo "only root can work with the rights of $ocb_as" >&2; return 1; }
  # It gets the text of files.sh, since it cannot read ours; it trusts links of root alone, and sees nothing of our environment.
  set -- sh -c "$(cat "${OCB_LIBRARY%/*}/files.sh")
ocb_trusted=0
\"\$@\"" sh "$@"
  if setpriv --reuid "$ocb_uid" --regid "$ocb_gid" --init-groups true 2>/dev/null; then
    set -- setpriv --reuid "$ocb_uid" --regid "$ocb_gid" --init-groups "$@"
  elif ! command -v su >/dev/null; then
    echo "nothing here gives a process the rights of $ocb_as: install util-linux, for setpriv or su" >&2
    return 1
  else
    shift
    set -- su -s /bin/sh "$ocb_as" "$@"
  fi
  ocb_code=0
  ocb_said=$(env -i PATH="$PATH" LC_ALL=C "$@" 2>&1) || ocb_code=$? # it must not write to a file of ours
  [ -z "$ocb_said" ] || printf '%s\n' "$ocb_said"
  return "$ocb_code"
}

ocb_finish() { # COMMAND...: of put and its like; says in a check where it could not be compared
  if "$@"; then set -- 0; else set -- 1; fi
  rm -f "$ocb_wanted"
  [ "$1" = 0 ] || ! checking || rm -f "$OCB_RUN.told"
  return "$1"
}

ocb_whole() { # PATH: sets $ocb_file to it, from the root
  case $1 in /*) ocb_file=$1 ;; *) ocb_file=$PWD/$1 ;; esac
}

# put FILE [MODE [OWNER]]: write stdin to FILE, and print that; a FILE that is so already stays.
#
# MODE (644) is chmod's, OWNER is chown's (the user of this script, and its group; in a setgid directory the group of that).
# Content, mode and owner are one statement: a FILE that differs in one of them is replaced by a new one, and a link, too. No
# other user can divert that (files.sh). A directory in the place of FILE is an error.
put() {
  ocb_whole "$1"
  ocb_finish ocb_put_file "${2:-644}" "${3-}"
}

ocb_put_file() { # MODE OWNER
  ocb_want "$1" "$2" || return
  if ocb_unread; then
    echo "$ocb_file stays as it is: its new content could not be read" >&2
    return 1
  fi
  ocb_any='?'
  [ -z "$ocb_owner" ] || ocb_any=
  ocb_put file "$ocb_file" "$ocb_mode" "${ocb_facts#* }$ocb_any" "wrote $ocb_file"
}

# put_directory DIRECTORY [MODE [OWNER]]: make it, with that mode and owner; without them, one that is there keeps its own.
put_directory() {
  ocb_whole "${1%/}"
  ocb_finish ocb_put_directory "${2-}" "${3-}"
}

ocb_put_directory() { # MODE OWNER
  ocb_want "$1" "$2" </dev/null || return
  ocb_put directory "$ocb_file" "$ocb_mode" "${ocb_owner:+${ocb_facts#* }}" "made $ocb_file as wanted"
}

# put_link LINK TARGET: make LINK a link to TARGET.
put_link() {
  ocb_whole "$1"
  ocb_finish ocb_put_link "$2"
}

ocb_put_link() { # TARGET
  ocb_want '' '' </dev/null || return
  ocb_put link "$ocb_file" "$1" '' "linked $ocb_file to $1"
}

# as USER put|put_directory|put_link ...: with the rights of USER and for USER, as is safe in directories of USER. Only for root.
as() {
  ocb_as=$1
  shift
  if "$@"; then set -- 0; else set -- "$?"; fi
  ocb_as=
  return "$1"
}

# drifted TEXT...: in a check, says so, and the machine is not as the role would leave it.
drifted() {
  printf '%s\n' "$*"
  ! checking || rm -f "$OCB_RUN.same"
}

# put_for SERVICE FILE [VERB]: as put; where that changed FILE, `systemctl VERB SERVICE` (try-restart), not below another root.
#
# The pending VERB of the service stands in /run from before FILE changes until systemctl succeeded. If it did not succeed, the
# next run does it. A reboot clears it: the service began with FILE then. A service that failed meanwhile is not running, and
# VERB without its "try-" starts it.
put_for() {
  if [ -n "$root" ] || ! command -v systemctl >/dev/null; then
    put "$2"
    return
  fi
  ocb_owed=/run/nodepool-ocb/owed/${2#/} ocb_do=${3:-try-restart}
  if [ -e "$ocb_owed" ]; then
    drifted "$1 has yet to take $2 over"
    if systemctl is-failed --quiet "$1"; then ocb_do=${ocb_do#try-}; fi
  fi
  ocb_before() { ocb_owe || ocb_owe; } # again, if another run has just removed the empty directory
  if put "$2"; then set -- "$1" 0; else set -- "$1" 1; fi
  ocb_before() { :; }
  [ "$2" = 0 ] || return 1
  if [ ! -e "$ocb_owed" ] || checking; then return 0; fi
  systemctl "$ocb_do" "$1" || return
  rm -f "$ocb_owed" || return
  rmdir -p "${ocb_owed%/*}" 2>/dev/null || true
}

ocb_owe() { mkdir -p "${ocb_owed%/*}" && true >"$ocb_owed"; }

# runs SERVICE: have systemd run it; not below another root, and not where the conditions of its unit are not met.
runs() {
  if [ -n "$root" ] || ! command -v systemctl >/dev/null; then return 0; fi
  if systemctl is-active --quiet "$1"; then return 0; fi
  if [ "$(systemctl is-system-running 2>/dev/null)" = offline ]; then
    echo "systemd does not run here: nothing is known of $1"
  elif checking; then
    ocb_unmet "$1" || drifted "$1 does not run"
  else
    systemctl start "$1" || return
    if systemctl is-active --quiet "$1"; then
      echo "started $1"
    elif ! ocb_unmet "$1"; then
      echo "$1 was started, and does not run" >&2
      return 1
    fi
  fi
}

ocb_unmet() { # SERVICE: it was started, and a condition of its unit prevented that
  ! systemctl show -p ConditionResult -p ConditionTimestampMonotonic "$1" | grep -qx 'ConditionTimestampMonotonic=0' &&
    systemctl show -p ConditionResult "$1" | grep -qx 'ConditionResult=no' && echo "$1 does not start here: a condition of its unit is not met"
}

# items PATH: the values in a list or a map of texts, one a line; nothing where there is no such attribute.
items() {
  ocb_watch
  ocb_keys=$(command read_attribute --keys "$1" "") || return
  [ -n "$ocb_keys" ] || return 0
  printf '%s\n' "$ocb_keys" | while IFS= read -r ocb_key; do command read_attribute "$1/$ocb_key" || return; done
}

# lines TEXT...: the texts, each with a newline at its end; nothing for an empty one.
lines() {
  for ocb_text; do [ -z "$ocb_text" ] || printf '%s\n' "$ocb_text"; done
}
