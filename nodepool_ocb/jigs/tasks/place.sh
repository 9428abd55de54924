# Goes to directories and puts files there, never through a link of somebody whom this machine's root need not trust.
#
# A path is walked one component at a time. A link is followed only if it belongs to root or to us; of any other component
# it is made sure that what was entered is what stands there. What follows is done in the directory that was reached,
# and to the open file, so whoever owns a directory on the way can change nothing of it meanwhile.

refuse() {
  printf 'task: %s\n' "$1"
  exit 1
}

enter() { # PATH MODE: makes what is missing with that mode; with no mode, that is an error
  left=${1#/}/ way= links=0
  cd -P /
  while [ -n "$left" ]; do
    step=${left%%/*} left=${left#*/}
    case $step in
      '' | .) ;;
      ..) cd -P .. && way=$(pwd -P) && way=${way%/} ;; # of a link that is trusted: nobody else's path has such
      *) way=$way/$step && go "$2" ;;
    esac
  done
}

go() { # MODE: one component on
  if [ -h "./$step" ]; then
    owner=$(stat -c %u "./$step")
    [ "$owner" = 0 ] || [ "$owner" = "$(id -u)" ] || refuse "$way is a link that belongs to user $owner; it is not followed"
    links=$((links + 1))
    [ $links -le 40 ] || refuse "$way: too many links"
    target=$(readlink "./$step")
    left=$target/$left way=${way%/*}
    case $target in /*) cd -P / && way= ;; esac
    return
  fi
  if [ ! -e "./$step" ]; then
    [ -n "$1" ] || refuse "there is no directory $way, and parents is false"
    mkdir -m "$1" "./$step" || refuse "cannot make the directory $way"
  fi
  [ -d "./$step" ] || refuse "$way is no directory"
  above=$(stat -c %d:%i .)
  cd -P "./$step" || refuse "cannot enter $way"
  [ "$(stat -c %d:%i ..)" = "$above" ] && [ "$(stat -c %d:%i "../$step")" = "$(stat -c %d:%i ./)" ] ||
    refuse "$way was replaced while it was entered"
}

place() { # PATH MODE DIRECTORY_MODE OWNER IF_THERE; what it is to hold comes as base64 on stdin
  name=${1##*/}
  enter "${1%/*}" "$3"
  if [ -d "./$name" ] && [ ! -h "./$name" ]; then refuse "$1 is a directory"; fi
  if [ "$5" = keep ] && { [ -e "./$name" ] || [ -h "./$name" ]; }; then
    echo "$1 is there, and stays as it is"
    return
  fi
  new=./.ocb-$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
  trap 'rm -f "$new"' EXIT
  umask 077
  set -C # the file must be a new one
  command exec 3>"$new" || refuse "cannot write in the directory of $1"
  set +C
  umask 022
  base64 -d >&3 || refuse "cannot write $1: $(df -P . | tail -n 1 | awk '{ print $6 " is " $5 " full" }')"
  chown "$4" /proc/self/fd/3 || refuse "$1 cannot belong to $4"
  chmod "$2" /proc/self/fd/3 || refuse "$1 cannot have the permissions $2"
  sync "$new" 2>/dev/null || sync
  exec 3>&-
  mv -fT "$new" "./$name" || refuse "cannot write $1"
  trap - EXIT
  echo "wrote $1"
}

trap 'exit 143' TERM
