# Boots this machine once for one run of a task list. Needs $once, the name of the run.
#
# The id of the boot is on disk before anything is done. So a repeated order, also of a later claim, learns that the machine has
# booted since, and boots it no second time.

refuse() {
  printf 'task: %s\n' "$1"
  exit 1
}

boots=${OCB_RUN%/runs/*}/boots
note=$boots/$once
read -r boot </proc/sys/kernel/random/boot_id
IFS= read -r stat </proc/1/stat
set -- ${stat##*) }
now=$boot.${20} # a container has its kernel's boot id, and a first process of its own
before=
[ ! -s "$note" ] || read -r before <"$note"
if [ -n "$before" ] && [ "$before" != "$now" ]; then
  echo "this machine has booted since; it is not booted again"
  write_attribute task/booted_from "$before"
  write_attribute task/said "$note.said"
  exit 0
fi
command -v reboot >/dev/null || refuse "there is no program reboot on this machine; install the package systemd-sysv, or the init that it has"
mkdir -p "$boots" && rm -f "$note.said" "$note.ready" && echo "$now" >"$note.new" && mv -f "$note.new" "$note" ||
  refuse "cannot write $note"
ls -t "$boots" | tail -n +41 | while IFS= read -r old; do rm -f "$boots/$old"; done
write_attribute task/booted_from "$now"
write_attribute task/said "$note.said"
sync
# In a session of its own, since this script's group ends with it, and late enough for its result to be heard.
setsid sh -c ': >"$0.ready"; sleep 2; said=$(reboot 2>&1) || echo "reboot: exit code $?: $said" >"$0.said"' "$note" \
  </dev/null >/dev/null 2>&1 &
until [ -e "$note.ready" ]; do sleep 0.05; done
echo "this machine boots again in 2 s"
