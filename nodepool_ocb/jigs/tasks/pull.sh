# Fetches a directory from an rsync daemon. Needs $src $dst $noop, and the functions of place.sh.

command -v rsync >/dev/null || refuse "there is no program rsync on this machine; install the package rsync"
if [ -n "$noop" ]; then
  [ -d "$dst" ] || { echo "would make the directory $dst, and copy all of $src to it"; exit 0; }
  set -- -n -i
else
  set --
fi
ocb_enter "$dst" 0755
rsync -c -r --delete -l "$@" -- "$src" .
code=$?
[ $code = 0 ] || printf 'task: rsync: exit code %s: from %s\n' $code "$src"
exit $code
