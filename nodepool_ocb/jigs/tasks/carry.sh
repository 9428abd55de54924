# The remote shell of rsync: copies the bytes of rsync to the jig, and those of the jig to rsync, by two pipes of rsync.
# It ends when the jig sends no more, as an ssh does when its command has ended: rsync waits for that.
#
# Started as: sh carry.sh TO_JIG FROM_JIG HOST COMMAND..., the first two numbers of file descriptors.
to=/proc/self/fd/$1 from=/proc/self/fd/$2
shift 3
printf '%s\n' "$*" >"$to"
exec 3<&0
cat <&3 >"$to" &
exec cat <"$from" 3<&-
