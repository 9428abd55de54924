# Goes to directories and puts files there, by the rules of files.sh, which is installed beside the library of scripts.

. "${OCB_LIBRARY%/*}/files.sh"

refuse() {
  printf 'task: %s\n' "$1"
  exit 1
}

ocb_refuse() { refuse "$1"; }

ocb_absent() { refuse "there is no directory $1, and parents is false"; }

place() { # PATH MODE DIRECTORY_MODE OWNER IF_THERE; the content comes as base64 on stdin
  name=${1##*/}
  ocb_enter "${1%/*}" "$3"
  if [ -d "./$name" ] && [ ! -h "./$name" ]; then refuse "$1 is a directory"; fi
  if [ "$5" = keep ] && { [ -e "./$name" ] || [ -h "./$name" ]; }; then
    echo "$1 is there, and stays as it is"
    return
  fi
  ocb_make "$1" "$2" "$4" decoded || exit
  echo "wrote $1"
}

decoded() { # prints it, and has it on disk
  base64 -d && { sync /proc/self/fd/1 2>/dev/null || sync; }
}

trap 'exit 143' TERM
