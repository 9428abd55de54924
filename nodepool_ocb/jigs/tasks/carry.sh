# rsync's remote shell: carries what rsync says to the jig, and what the jig says to rsync, by two pipes that rsync was given.
# It ends when the jig has no more to say, as an ssh does when its command has ended: rsync waits for that.
#
# Started as: sh carry.sh TO_JIG FROM_JIG HOST COMMAND..., the first two numbers of file descriptors.
to=/proc/self/fd/$1 from=/proc/self/fd/$2
shift 3
printf '%s\n' "$*" >"$to"
exec 3<&0
cat <&3 >"$to" &
exec cat <"$from" 3<&-
