# shellcheck shell=sh
# The rescue: sshd waits for people, and the machine returns to its own system when the API says so.

rescue_machine() {
  set_clock
  say "rescue: sshd waits for people; nothing is changed"
  [ -n "$(argument ocb.boot)" ] || rest # nobody ordered this boot by a rescue
  if [ -e "$OCB_RUN/ended" ]; then rest; fi
  trap ': >"$OCB_RUN/ended"' EXIT
  [ -n "$node" ] || die "the kernel arguments lack ocb.node"
  identify
  ordered authorized_keys | add_logins
  say "identified; waiting for the end of the rescue"
  until permitted; do sleep 5; done
  say "restarting into the own system"
  restart
}

add_logins() { # of the order, beside those of the site
  mkdir -p "$OCB_ROOT_SSH" && chmod 700 "$OCB_ROOT_SSH"
  cat >>"$OCB_ROOT_SSH/authorized_keys"
}
