# Prints the boot of this machine, and begins the next one if that is wanted.
#
# Started as: sh -c TEXT boot STATE_DIR EPOCH FILE [BOOT COMMAND]. FILE changes with each boot. An order with an older epoch than
# the machine knows is refused, and a newer epoch is noted, in the files of runner.sh. COMMAND runs only while the boot is BOOT.
umask 077
state=$1 epoch=$2
case $state in "~/"*) state=$HOME/${state#"~/"} ;; esac
mkdir -p "$state"
seen= slot=0
for number in 0 1; do
  [ -s "$state/epoch.$number" ] || continue
  read -r e_epoch e_key e_whole <"$state/epoch.$number"
  [ "$e_whole" = "$e_epoch" ] || continue
  if [ -z "$seen" ] || [ "$e_epoch" -ge "$seen" ]; then seen=$e_epoch slot=$((1 - number)); fi
done
if [ -n "$seen" ] && [ "$epoch" -lt "$seen" ]; then
  printf '\nFENCED %s\n' "$seen"
  exit 0
fi
if [ "$epoch" != "$seen" ]; then
  echo "$epoch - $epoch" 1<>"$state/epoch.$slot" || exit 1
  sync -d "$state/epoch.$slot" 2>/dev/null || sync
fi
read -r boot <"$3" || exit 1
printf '\nBOOT %s\n' "$boot"
[ -n "${5-}" ] && [ "$boot" = "$4" ] || exit 0
(sleep 1 && exec sh -c "$5") </dev/null >/dev/null 2>&1 &
