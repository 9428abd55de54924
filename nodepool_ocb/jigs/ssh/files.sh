# Enters directories and makes files there, so that no other user of the machine can divert the work to another place.
#
# A path is walked one component at a time. A directory is *open* where a user other than root and us may replace entries of
# it. In an open directory no link is followed, and a directory counts as entered only if it still stands there afterwards.
# In any other directory a link is followed if it belongs to root or to us. The work itself is done in the directory that was
# reached, and on open files. A new file has a random name and is opened with O_EXCL; a rename gives it its final name.
#
# library.sh and the scripts of task lists source this file. library.sh also hands its text to a shell of another user.

ocb_refuse() { # TEXT
  printf '%s\n' "$1" >&2
  exit 1
}

ocb_absent() { # DIRECTORY: it is missing, and must not be made
  ocb_refuse "there is no directory $1"
}

ocb_own=$(id -u)
ocb_trusted="0 $ocb_own" # the users with links that are followed

ocb_look() { # sets $ocb_open, $ocb_sticky and, of a setgid directory, $ocb_group: of the present directory
  set -- $(stat -c '%u %g 0%a' .)
  ocb_open= ocb_sticky= ocb_group=
  [ $(($3 & 02000)) -eq 0 ] || ocb_group=$2
  if [ "$1" != 0 ] && [ "$1" != "$ocb_own" ]; then
    ocb_open=1
  elif [ $(($3 & 02)) -ne 0 ] || { [ $(($3 & 020)) -ne 0 ] && [ "$2" != 0 ]; }; then
    ocb_open=1
    [ $(($3 & 01000)) -eq 0 ] || ocb_sticky=1 # links of root and of us stay there
  fi
}

ocb_enter() { # PATH MODE: makes missing directories with that mode; without a mode, a missing one is ocb_absent
  ocb_left=${1#/}/ ocb_way= ocb_links=0
  cd -P /
  while [ -n "$ocb_left" ]; do
    ocb_step=${ocb_left%%/*} ocb_left=${ocb_left#*/}
    case $ocb_step in
      '' | .) ;;
      ..) cd -P .. && ocb_way=$(pwd -P) && ocb_way=${ocb_way%/} ;; # of a link that is trusted: no other path has such
      *) ocb_way=$ocb_way/$ocb_step && ocb_look && ocb_go "$2" ;;
    esac
  done
}

ocb_go() { # MODE: one component on
  if [ -h "./$ocb_step" ]; then
    ocb_link
    return
  fi
  if [ ! -e "./$ocb_step" ]; then
    [ -n "$1" ] || ocb_absent "$ocb_way"
    mkdir -m "$1" "./$ocb_step" || ocb_refuse "cannot make the directory $ocb_way"
    ocb_made=$ocb_way
  fi
  [ -d "./$ocb_step" ] || ocb_refuse "$ocb_way is no directory"
  [ -z "$ocb_open" ] || ocb_above=$(stat -c %d:%i .)
  cd -P "./$ocb_step" || ocb_refuse "cannot enter $ocb_way"
  [ -z "$ocb_open" ] || {
    [ "$(stat -c %d:%i ..)" = "$ocb_above" ] && [ "$(stat -c %d:%i "../$ocb_step")" = "$(stat -c %d:%i ./)" ]
  } || ocb_refuse "$ocb_way was replaced while it was entered"
}

ocb_link() { # follows the link, if it is trusted: no other user can replace it between these two looks
  ocb_owner=$(stat -c %u "./$ocb_step")
  case " $ocb_trusted " in
    *" $ocb_owner "*) ;;
    *) ocb_refuse "$ocb_way is a link that belongs to user $ocb_owner; it is not followed" ;;
  esac
  [ -z "$ocb_open" ] || [ -n "$ocb_sticky" ] ||
    ocb_refuse "$ocb_way is a link in a directory that other users may change; it is not followed"
  ocb_links=$((ocb_links + 1))
  [ $ocb_links -le 40 ] || ocb_refuse "$ocb_way: too many links"
  ocb_target=$(readlink "./$ocb_step")
  ocb_left=$ocb_target/$ocb_left ocb_way=${ocb_way%/*}
  case $ocb_target in /*) cd -P / && ocb_way= ;; esac
}

ocb_random() {
  od -An -N8 -tx1 /dev/urandom | tr -d ' \n'
}

ocb_rename() { # NEW NAME
  # mv of busybox looks at the target of a link NAME, and fails if that is a directory or out of reach.
  mv -fT "$1" "./$2" 2>/dev/null || {
    [ ! -h "./$2" ] || rm -f "./$2"
    mv -fT "$1" "./$2"
  }
}

ocb_make() ( # PATH MODE OWNER COMMAND...: makes the file anew in the present directory; COMMAND prints its content
  ocb_path=$1 ocb_name=${1##*/} ocb_mode=$2 ocb_owner=$3
  shift 3
  trap 'exit 143' TERM
  rm -f "./.ocb-$ocb_name."???????????????? # of a run that was killed: of this FILE alone, by the length of ocb_random
  ocb_new=./.ocb-$ocb_name.$(ocb_random)
  [ ${#ocb_name} -lt 200 ] || ocb_new=./.ocb-$(ocb_random)
  trap 'rm -f "$ocb_new"' EXIT
  umask 077
  set -C # the file must be a new one
  command exec 3>"$ocb_new" || ocb_refuse "cannot write in the directory of $ocb_path"
  set +C
  umask 022
  "$@" >&3 || ocb_refuse "cannot write $ocb_path: $(df -P . | tail -n 1 | awk '{ print $6 " is " $5 " full" }')"
  [ -z "$ocb_owner" ] || chown "$ocb_owner" /proc/self/fd/3 || ocb_refuse "$ocb_path cannot belong to $ocb_owner"
  chmod "$ocb_mode" /proc/self/fd/3 || ocb_refuse "$ocb_path cannot have the permissions $ocb_mode"
  exec 3>&-
  ocb_rename "$ocb_new" "$ocb_name" || ocb_refuse "cannot write $ocb_path"
  trap - EXIT
)

# -- comparing and making --
#
# KIND is file, link or directory; WANTED is a mode, and the target of a link; OWNER is UID:GID. An empty one means any; behind
# an OWNER, "?" lets a setgid directory say the group. The content of a file is stdin, and again descriptors 5 and 6.
#
# One function, ocb_judge, compares the present with the wanted state: in a check, before the file is made and afterwards. It
# prints a line for each difference.

ocb_examine() ( # KIND PATH WANTED OWNER: 2, and how it differs, where it does; changes nothing
  ocb_path=$2
  ocb_absent() {
    echo "$ocb_path is not there"
    exit 2
  }
  ocb_arrive "$1" "$2" "$4" '' ''
  ocb_judge "$1" "$2" "$3" show || exit 2
)

ocb_establish() ( # KIND PATH WANTED OWNER: makes it as wanted; 3 where it was not so before
  ocb_arrive "$1" "$2" "$4" 755 "${3:-755}"
  [ "$1" != file ] || ocb_unplant "$2"
  if ocb_judge "$1" "$2" "$3" '' >/dev/null; then
    [ "$ocb_made" != "$ocb_way" ] || [ "$1" != directory ] || exit 3
    exit 0
  fi
  [ -z "$ocb_diverted" ] || ocb_refuse "$2 is a link, and is to be a directory; it is not followed"
  [ "$1" = directory ] || [ -h "./$ocb_last" ] || [ ! -d "./$ocb_last" ] ||
    ocb_refuse "$2 is a directory, and is to be a $1; move it away"
  ocb_before || exit 1
  case $1 in
    file) ocb_make "$2" "$3" "$ocb_owner" cat <&5 || exit 1 ;;
    link) ocb_tie "$2" "$3" || exit 1 ;;
    directory)
      [ -z "$ocb_owner" ] || chown "$ocb_owner" . || ocb_refuse "$2 cannot belong to $ocb_owner"
      [ -z "$3" ] || chmod "00$3" . || ocb_refuse "$2 cannot have the permissions $3"
      ;;
  esac
  ocb_said=$(ocb_judge "$1" "$2" "$3" '' <&6) || ocb_refuse "$2 was made, and is not as it was made: $ocb_said"
  exit 3
)

ocb_before() { :; } # runs before anything changes

ocb_arrive() { # KIND PATH OWNER MODE OWN_MODE: enters the directory that has it, or that it is; sets $ocb_last and $ocb_owner
  ocb_last=${2##*/} ocb_owner=${3%\?} ocb_diverted= ocb_made=
  ocb_enter "${2%/*}" "$4"
  ocb_look
  case $3 in *\?) [ -z "$ocb_group" ] || ocb_owner=${ocb_owner%:*}:$ocb_group ;; esac
  [ "$1" = directory ] || return 0
  if [ -h "./$ocb_last" ]; then
    ocb_diverted=$(readlink "./$ocb_last")
    return
  fi
  ocb_step=$ocb_last ocb_way=$2
  ocb_go "$5"
}

ocb_judge() { # KIND PATH WANTED SHOW: whether it is as wanted
  ocb_same=1
  case $1 in
    directory)
      if [ -n "$ocb_diverted" ]; then
        ocb_differs "$2 is a link to $ocb_diverted, and is to be a directory"
      else
        ocb_judge_facts "$2" "$3" "$(stat -c '%a %u:%g' .)"
      fi
      ;;
    link) ! ocb_judge_kind "$2" link || ocb_judge_target "$2" "$3" ;;
    file)
      ! ocb_judge_kind "$2" file || ocb_judge_content "$2" "$3" "$4"
      ! ocb_planted || ocb_differs "$(ocb_of_planted "$2")"
      ;;
  esac
  [ -n "$ocb_same" ]
}

ocb_differs() { # TEXT
  printf '%s\n' "$1"
  ocb_same=
}

ocb_judge_kind() { # PATH file|link
  if [ -h "./$ocb_last" ]; then
    [ "$2" = link ] || ocb_differs "$1 is a link to $(readlink "./$ocb_last"), and is to be a file"
  elif [ ! -e "./$ocb_last" ]; then
    ocb_differs "$1 is not there"
  elif [ ! -f "./$ocb_last" ] || [ "$2" = link ]; then
    ocb_differs "$1 is a $(stat -c %F "./$ocb_last"), and is to be a $2"
  fi
  [ -n "$ocb_same" ]
}

ocb_judge_target() { # PATH TARGET
  ocb_target=$(readlink "./$ocb_last")
  [ "$ocb_target" = "$2" ] || ocb_differs "$1 is a link to $ocb_target, and is to be one to $2"
}

ocb_judge_content() { # PATH MODE SHOW: of a file, which is opened once; it must be the one that was looked at
  [ -z "$ocb_open" ] || ocb_inode=$(stat -c %d:%i "./$ocb_last")
  { command exec 4<"./$ocb_last"; } 2>/dev/null || {
    ocb_differs "$1 cannot be read by user $ocb_own"
    return 0
  }
  ocb_facts=$(stat -L -c '%a %u:%g %d:%i' /proc/self/fd/4)
  [ -z "$ocb_open" ] || [ "${ocb_facts##* }" = "$ocb_inode" ] || ocb_refuse "$1 was replaced while it was read"
  ocb_facts=${ocb_facts% *}
  if ! cmp -s - /proc/self/fd/4; then
    ocb_same=
    [ -z "$3" ] || ocb_show "$1" "$2" "${ocb_facts% *}" "${ocb_facts#* }"
  fi
  exec 4<&-
  ocb_judge_facts "$1" "$2" "$ocb_facts"
}

ocb_judge_facts() { # PATH MODE "MODE OWNER": the wanted mode, and the present mode and owner
  [ -z "$2" ] || [ "${3% *}" = "$2" ] || ocb_differs "$1 has mode ${3% *}, and is to have $2"
  [ -z "$ocb_owner" ] || [ "${3#* }" = "$ocb_owner" ] ||
    ocb_differs "$1 belongs to ${3#* }, and must belong to $ocb_owner"
}

ocb_show() { # PATH WANTED_MODE MODE OWNER: how a file differs, unless fewer users may read it than wanted
  if [ $((0$3 & 04)) -ne 0 ] || { [ "$4" = "$ocb_owner" ] && [ $((0$2 & ~0$3 & 0444)) -eq 0 ]; }; then
    diff -u -L "$1" -L wanted /proc/self/fd/4 - <&5 || true
  else
    echo "$1 has other content, which is not shown: mode $3 and owner $4 let fewer users read it than wanted"
  fi
}

ocb_planted() { # sets $ocb_plant to a link FILE.new.NUMBER: to such names former versions of put wrote, through links
  for ocb_plant in "./$ocb_last.new."[0-9]*; do
    [ ! -h "$ocb_plant" ] || return 0
  done
  return 1
}

ocb_of_planted() { # PATH
  echo "${1%/*}/${ocb_plant#./} is a link to $(readlink "$ocb_plant"): put of former versions would have written through it"
}

ocb_unplant() { # PATH
  ! ocb_planted || {
    echo "$(ocb_of_planted "$1"); it is removed, with all others of such names"
    find . -maxdepth 1 -type l -name "$ocb_last.new.[0-9]*" -exec rm -f {} +
  }
}

ocb_tie() ( # PATH TARGET: makes the link anew in the present directory
  ocb_new=./.ocb-$(ocb_random)
  trap 'exit 143' TERM
  trap 'rm -f "$ocb_new"' EXIT
  ln -s -- "$2" "$ocb_new" && ocb_rename "$ocb_new" "$ocb_last" || ocb_refuse "cannot write $1"
  trap - EXIT
)
