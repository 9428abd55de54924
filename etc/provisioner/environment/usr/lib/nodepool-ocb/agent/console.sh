# shellcheck shell=sh
# The console, the kernel arguments, and the end of a failed agent. Also the places of files.
#
# The shell alone reads these small files: an emulated CPU takes a tenth of a second for a chain of programs.

: "${OCB_ETC:=/etc/ocb}"                # material of the site, from the second initrd
: "${OCB_RUN:=/run/nodepool-ocb}"       # the agent's own files, in memory
: "${OCB_OWN:=/etc/nodepool-ocb}"       # the machine's token
: "${OCB_SYS:=/sys}"                    # facts of the kernel
: "${OCB_PROC:=/proc}"
: "${OCB_HOST_KEY:=/etc/ssh/ssh_host_ed25519_key}"
: "${OCB_ROOT_SSH:=/root/.ssh}"
: "${OCB_TARGET:=/run/nodepool-ocb/target}" # where the new root file system is mounted

say() { echo "ocb: $(uptime_seconds) s: $*"; } # seconds since the kernel began

argument() ( # argument NAME: the value of the last kernel argument of this name, empty without
  set -f
  given=
  read -r line <"$OCB_PROC/cmdline" || :
  for word in $line; do
    case $word in "$1="*) given=${word#*=} ;; esac
  done
  [ -z "$given" ] || printf '%s\n' "$given"
)

uptime_seconds() {
  read -r up _ <"$OCB_PROC/uptime"
  echo "${up%%.*}"
}

die() { # the agent ends with a reason: on the console, and in a report if this machine has its token
  say "FAILED: $*"
  report_failure "$*"
  exit 1
}

rest() { # nothing more to do in this boot
  while :; do sleep 3600; done
}

host_key() {
  read -r key_type key _ <"$OCB_HOST_KEY.pub"
  echo "$key_type $key"
}

json() { # json TEXT: the text as JSON. Plain text needs no jq: each start of it costs an emulated CPU most of a second
  case $1 in
  *[!A-Za-z0-9\ ._:/@+=,-]*) jq --null-input --arg text "$1" '$text' ;;
  *) printf '"%s"' "$1" ;;
  esac
}
