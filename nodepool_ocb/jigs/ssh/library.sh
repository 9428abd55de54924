# What scripts of roles share. A script that wants it begins with: . "$OCB_LIBRARY"
#
# Sets $root: what stands before the path of every file that is written, without a slash at its end. It is OCB_ROOT, else the
# attribute ocb/root; empty where that is /, the machine's own files. Needs a POSIX shell, and nothing that the runner does not.

root=${OCB_ROOT:-$(read_attribute ocb/root /)}
root=${root%/}

# put FILE [MODE]: make FILE what stdin says, and say so; left alone where it says so already.
put() {
  mkdir -p "${1%/*}" || return
  if ! { cat >"$1.new.$$" && chmod "${2:-644}" "$1.new.$$"; }; then
    rm -f "$1.new.$$"
    return 1
  fi
  if cmp -s "$1.new.$$" "$1"; then rm -f "$1.new.$$"; else mv -f "$1.new.$$" "$1" && echo "wrote $1"; fi
}

# put_for SERVICE FILE [VERB]: as put; where that changed FILE, `systemctl VERB SERVICE` (try-restart), not below another root.
put_for() {
  ocb_said=$(put "$2") || return
  [ -n "$ocb_said" ] || return 0
  echo "$ocb_said"
  if [ -z "$root" ] && command -v systemctl >/dev/null; then systemctl "${3:-try-restart}" "$1"; fi
}

# items PATH: the values in a list or a map of texts, one a line; nothing where there is no such attribute.
items() {
  ocb_keys=$(read_attribute --keys "$1" "") || return
  [ -n "$ocb_keys" ] || return 0
  printf '%s\n' "$ocb_keys" | while IFS= read -r ocb_key; do read_attribute "$1/$ocb_key" || return; done
}
