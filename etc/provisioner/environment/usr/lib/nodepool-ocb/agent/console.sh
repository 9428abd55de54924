# shellcheck shell=sh
# The console, the kernel arguments, and the end of a failed agent. Also the places of files.

: "${OCB_ETC:=/etc/ocb}"                # material of the site, from the second initrd
: "${OCB_RUN:=/run/nodepool-ocb}"       # the agent's own files, in memory
: "${OCB_OWN:=/etc/nodepool-ocb}"       # the machine's token
: "${OCB_SYS:=/sys}"                    # facts of the kernel
: "${OCB_PROC:=/proc}"
: "${OCB_HOST_KEY:=/etc/ssh/ssh_host_ed25519_key}"
: "${OCB_ROOT_SSH:=/root/.ssh}"
: "${OCB_TARGET:=/run/nodepool-ocb/target}" # where the new root file system is mounted

say() { echo "ocb: $(uptime_seconds) s: $*"; } # seconds since the kernel began

argument() { # argument NAME: the value of the last kernel argument of this name, empty without
  tr ' ' '\n' <"$OCB_PROC/cmdline" | sed -n "s|^$1=||p" | tail -n 1
}

uptime_seconds() { cut -d. -f1 "$OCB_PROC/uptime"; }

die() { # the agent ends with a reason: on the console, and in a report if this machine has its token
  say "FAILED: $*"
  report_failure "$*"
  exit 1
}

rest() { # nothing more to do in this boot
  while :; do sleep 3600; done
}

host_key() { cut -d' ' -f1,2 "$OCB_HOST_KEY.pub"; }
