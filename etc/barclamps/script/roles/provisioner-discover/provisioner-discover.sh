#!/bin/sh
# Compares the machine that answers with the inventory of the node. Writes nothing on it.
#
# Another machine at the address of the node, or one with another part, differs. The facts themselves are attributes already.
set -eu
. "$OCB_LIBRARY"

tolerance=$(read_attribute discover/memory-tolerance)
serial=$(read_attribute machine/serial "")
uuid=$(read_attribute machine/uuid "")
arch=$(read_attribute machine/arch "")
cpus=$(read_attribute machine/cpus "")
memory=$(read_attribute machine/memory "")
[ -z "$root" ] || exit 0 # below another root there is no machine
sys=${OCB_SYS:-/sys} proc=${OCB_PROC:-/proc}

said=
differs() { # TEXT
  said=${said:+$said; }$1
}

same() { # NAME NOW KNOWN: an unknown one says nothing
  if [ -n "$2" ] && [ -n "$3" ] && [ "$2" != "$3" ]; then
    differs "the machine has $1 $2, and its inventory says $3"
  fi
}

dmi() { { tr -d '\000-\037' <"$sys/class/dmi/id/$1"; } 2>/dev/null | cut -c1-100 | sed 's/^ *//; s/ *$//'; }

same serial "$(dmi product_serial)" "$serial"
same uuid "$(dmi product_uuid)" "$uuid"
same architecture "$(uname -m)" "$arch"
same CPUs "$(grep -c '^processor' "$proc/cpuinfo")" "$cpus"
if [ -n "$memory" ]; then # kernels keep different parts of it for themselves
  mib=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' "$proc/meminfo")
  mib=$((mib / 1024)) known=$((memory / 1048576))
  apart=$((mib > known ? mib - known : known - mib))
  if [ $((apart * 100)) -gt $((known * tolerance)) ]; then
    differs "the machine has $mib MiB of memory, and its inventory says $known MiB"
  fi
fi

if [ -z "$serial$uuid$arch$cpus$memory" ]; then
  echo "node $OCB_NODE has no inventory: nothing is compared"
elif [ -z "$said" ]; then
  echo "the machine is as its inventory says"
elif checking; then
  drifted "$said"
else
  echo "$said: another machine answers, or a part changed; then: nodepool-ocb node inventory $OCB_NODE FILE" >&2
  exit 1
fi
