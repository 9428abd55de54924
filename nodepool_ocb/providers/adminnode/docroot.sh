# The images of an admin node, below $root/images, seen by the driver `admin-node`; runs on the admin node with /bin/sh.
#
# Arguments: ROOT VERB [ARGUMENTS]. Each upload is a folder .uploads/NAME with stamp.json, which is there before the first
# byte and goes last. IMAGE/BUILD is a link to an upload, which changes in one step. IMAGE/newest names the newest build, and
# IMAGE/newest.ipxe and IMAGE/newest.cfg give it to the scripts of iPXE and GRUB.
set -eu
umask 022 # the HTTP server reads as another user
root=$1 verb=$2
shift 2
docroot=$root/images
uploads=$docroot/.uploads

say() { printf 'ocb %s\n' "$*"; }

refuse() {
  say refused "$*"
  exit 0
}

begin() { # begin NAME: takes the stamp on standard input
  mkdir -p "$uploads"
  find "$uploads" -mindepth 1 -maxdepth 1 -type d -mmin +60 | while IFS= read -r old; do
    case $old in *.new) rm -rf "$old" ;; *) [ -e "$old/stamp.json" ] || rm -rf "$old" ;; esac
  done
  fresh=$uploads/$1.$$.new
  mkdir "$fresh"
  cat >"$fresh/stamp.json"
  sync "$fresh/stamp.json" 2>/dev/null || sync
  mv -T -n "$fresh" "$uploads/$1"
  if [ -d "$fresh" ]; then
    rm -rf "$fresh"
    say taken
  else
    say begun
  fi
}

receive() { # receive NAME FORMAT SHA256: takes the file on standard input, unpacks a boot from the network, compares all
  cd "$uploads/$1"
  case $2 in
  pxe) part=boot.part ;;
  *) part=disk.$2 ;;
  esac
  cat >"$part"
  found=$(sha256sum "$part" | cut -d' ' -f1)
  [ "$found" = "$3" ] || refuse "it has the SHA-256 $found there"
  if [ "$2" = pxe ]; then
    tar -xf "$part" SHA256SUMS vmlinuz initrd root.squashfs || refuse "the tar has not SHA256SUMS, vmlinuz, initrd and root.squashfs"
    rm -f "$part"
    compare || refuse "a file in the tar does not match its SHA256SUMS"
  else
    printf '%s  %s\n' "$found" "$part" >SHA256SUMS
  fi
  chmod 644 -- *
  sync
  say received
}

compare() { sha256sum --check --strict --quiet SHA256SUMS >/dev/null 2>&1; }

publish() { # publish NAME IMAGE BUILD: the build's link, then the newest build of the image
  one_at_a_time
  printf '%s/%s\n' "$2" "$3" >"$uploads/$1/.build"
  mkdir -p "$docroot/$2"
  ln -sfn "../.uploads/$1" "$docroot/$2/.$3.new"
  mv -T "$docroot/$2/.$3.new" "$docroot/$2/$3"
  name_newest "$2"
  say published
}

name_newest() { # name_newest IMAGE: the greatest id among the links; the folder goes with its last link
  newest=$(find "$docroot/$1" -mindepth 1 -maxdepth 1 -type l -printf '%f\n' | grep -v '^\.' | LC_ALL=C sort | tail -n 1)
  if [ -n "$newest" ]; then
    sum=$(sed -n 's/^\([0-9a-f]*\)  root\.squashfs$/\1/p' "$docroot/$1/$newest/SHA256SUMS" 2>/dev/null) || sum=
    printf '#!ipxe\nset build %s\nset root_sha256 %s\n' "$newest" "$sum" | replace "$docroot/$1/newest.ipxe"
    printf 'set build=%s\nset root_sha256=%s\n' "$newest" "$sum" | replace "$docroot/$1/newest.cfg"
    printf '%s\n' "$newest" | replace "$docroot/$1/newest"
  else
    rm -f "$docroot/$1/newest" "$docroot/$1/newest.ipxe" "$docroot/$1/newest.cfg"
    rmdir "$docroot/$1" 2>/dev/null || :
  fi
}

replace() { # replace FILE: by standard input, in one step
  cat >"$1.part"
  mv "$1.part" "$1"
}

check() { # check NAME: reads every file
  cd "$uploads/$1" 2>/dev/null || refuse "it is gone"
  compare || refuse "a file there differs from SHA256SUMS"
  say same
}

stamp() { # stamp NAME: empty without
  cat "$uploads/$1/stamp.json" 2>/dev/null || :
  say end
}

one_at_a_time() { # two builds of one image may end together
  exec 9>"$docroot/.lock"
  flock -w 30 9 || refuse "another upload holds $docroot/.lock"
}

remove() { # remove NAME IMAGE BUILD: links first, the stamp last; another upload of the build takes its place
  one_at_a_time
  if [ "$(readlink "$docroot/$2/$3" 2>/dev/null)" = "../.uploads/$1" ]; then
    rm -f "$docroot/$2/$3"
    other=$(grep -lxF "$2/$3" "$uploads"/*/.build 2>/dev/null | grep -vF "/$1/" | tail -n 1) || other=
    if [ -n "$other" ]; then
      other=${other%/.build}
      ln -s "../.uploads/${other##*/}" "$docroot/$2/$3"
    fi
    name_newest "$2"
  fi
  if [ -d "$uploads/$1" ]; then
    find "$uploads/$1" -mindepth 1 ! -name stamp.json -delete
    rm -f "$uploads/$1/stamp.json"
    rmdir "$uploads/$1"
  fi
  say removed
}

list() { # a line of JSON for each upload, with its name and its age
  for folder in "$uploads"/*/; do
    [ -s "$folder/stamp.json" ] || continue
    name=${folder%/}
    case $name in *.new) continue ;; esac
    printf 'ocb upload %s %s %s\n' "${name##*/}" "$(stat -c %Y "$folder/stamp.json")" "$(cat "$folder/stamp.json")"
  done
  say end
}

case $verb in
begin | receive | publish | check | stamp | remove | list) "$verb" "$@" ;;
*) refuse "unknown verb $verb" ;;
esac
