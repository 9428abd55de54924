# What scripts of roles share. A script that wants it begins with: . "$OCB_LIBRARY"
#
# Sets $root: what stands before the path of every file that is written, without a slash at its end. It is OCB_ROOT, else the
# attribute ocb/root; empty where that is /, the machine's own files. Needs a POSIX shell, and nothing that the runner does not.
#
# A shell sees only the failure of the last command of a pipe, and none inside a word. So what is read goes into a variable
# first, by a command of its own: text=$(read_attribute a/b); lines "$text" | put FILE. Where read_attribute or items feeds put
# itself and fails, put refuses: the pipe is noted in $OCB_RUN.unread before it is closed.

#
# In a check a script changes nothing: put and put_for show how a file differs from what it is to say, and note it at once for
# the runner, which judges a script that ended with 0 by that: no trap, subshell or exec of the script's own loses what was
# found. What is noted is the absence of a file that the runner made, which needs no room on a disk that is full. What a script
# does beside them is its own to leave away: it asks `checking`.

root=${OCB_ROOT:-$(read_attribute ocb/root /)}
root=${root%/}

checking() { [ -n "${OCB_CHECK-}" ]; }

read_attribute() {
  ocb_watch
  command read_attribute "$@"
}

ocb_watch() { # in a subshell: if it ends by a failure, its output is noted
  read -r ocb_pid _ </proc/self/stat
  [ "$ocb_pid" = $$ ] || trap '[ $? -eq 0 ] || { readlink /proc/self/fd/9 >>"$OCB_RUN.unread"; } 9>&1' EXIT
}

ocb_unread() { # whether what feeds stdin has failed
  [ -e "$OCB_RUN.unread" ] && ocb_pipe=$(readlink /proc/self/fd/0) && grep -qxF "$ocb_pipe" "$OCB_RUN.unread"
}

ocb_compare() { # FILE MODE: as put, where nothing is to be changed
  ocb_differs "$@" && return
  rm -f "$OCB_RUN.told"
  return 1
}

ocb_differs() { # FILE MODE: shows how it does; false if that cannot be told
  rm -f "$OCB_RUN.wanted"
  cat >"$OCB_RUN.wanted" || return
  if ocb_unread; then
    echo "what $1 is to say could not be read" >&2
    return 1
  fi
  if ! cmp -s "$1" "$OCB_RUN.wanted"; then
    rm -f "$OCB_RUN.same" || return
    if [ -e "$1" ]; then diff -u "$1" "$OCB_RUN.wanted" 2>&1 || true; else echo "$1 is not there"; fi
    return 0
  fi
  chmod "$2" "$OCB_RUN.wanted" && ocb_due=$(stat -c %a "$OCB_RUN.wanted") && ocb_mode=$(stat -c %a "$1") || return
  if [ "$ocb_mode" != "$ocb_due" ]; then
    rm -f "$OCB_RUN.same" || return
    echo "$1 has mode $ocb_mode, and is to have $2"
  fi
}

# put FILE [MODE]: make FILE what stdin says, and say so; left alone where it says so already.
# A third argument, of put_for: a file that is made before FILE changes.
put() {
  if checking; then
    ocb_compare "$1" "${2:-644}"
    return
  fi
  mkdir -p "${1%/*}" || return
  if ! { cat >"$1.new.$$" && chmod "${2:-644}" "$1.new.$$"; }; then
    rm -f "$1.new.$$"
    return 1
  fi
  if ocb_unread; then
    rm -f "$1.new.$$"
    echo "$1 stays as it is: what it is to say could not be read" >&2
    return 1
  fi
  if cmp -s "$1.new.$$" "$1"; then
    rm -f "$1.new.$$"
  elif { [ -z "${3-}" ] || { mkdir -p "${3%/*}" && true >"$3"; }; } && mv -f "$1.new.$$" "$1"; then
    echo "wrote $1"
  else
    rm -f "$1.new.$$"
    return 1
  fi
}

# put_for SERVICE FILE [VERB]: as put; where that changed FILE, `systemctl VERB SERVICE` (try-restart), not below another root.
#
# What is owed to the service stands in /run from before FILE changes until systemctl succeeded, and is done at the next run
# where it did not. A reboot clears it: the service began with FILE then. A service that failed meanwhile is not running, and
# VERB without its "try-" is what starts it.
put_for() {
  if [ -n "$root" ] || checking || ! command -v systemctl >/dev/null; then
    put "$2"
    return
  fi
  ocb_owed=/run/nodepool-ocb/owed/${2#/} ocb_verb=${3:-try-restart}
  if [ -e "$ocb_owed" ]; then
    echo "$1 has yet to take $2 over"
    if systemctl is-failed --quiet "$1"; then ocb_verb=${ocb_verb#try-}; fi
  fi
  put "$2" 644 "$ocb_owed" || return
  [ -e "$ocb_owed" ] || return 0
  systemctl "$ocb_verb" "$1" || return
  rm -f "$ocb_owed" || return
  rmdir -p "${ocb_owed%/*}" 2>/dev/null || true
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
