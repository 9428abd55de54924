#!/bin/sh
# Tests a part of the memory with memtester, one time for each machine and each set of bounds.
#
# A run after a boot finds the result of the earlier one on its wall: it tests nothing again, also on the installed system.
# Set memory_again to another word for a new test. At most half of the free memory is tested.
set -eu
. "$OCB_LIBRARY"

least=$(read_attribute commissioning/memory/least-mib)
size=$(read_attribute commissioning/memory/test-mib)
passes=$(read_attribute commissioning/memory/passes)
seconds=$(read_attribute commissioning/memory/seconds)
again=$(read_attribute commissioning/memory/again)
tested=$(read_attribute commissioning/memory/tested "")
[ -z "$root" ] || exit 0 # below another root there is no machine
sys=${OCB_SYS:-/sys} proc=${OCB_PROC:-/proc}

kib() { sed -n "s/^$1: *\([0-9]*\) kB/\1/p" "$proc/meminfo"; }

refused() { # TEXT
  echo "$1" >&2
  exit 1
}

total=$(($(kib MemTotal) / 1024)) free=$(($(kib MemAvailable) / 1024))
machine=$({ tr -d '\000-\037' <"$sys/class/dmi/id/product_uuid"; } 2>/dev/null | cut -c1-64) || machine=
made="${machine:-unknown} $((total / 64)) $size $passes $again" # 64 MiB: kernels keep different parts for themselves
if [ "$total" -lt "$least" ]; then
  said="the machine has $total MiB of memory, and $least must be there"
  ! checking || { drifted "$said" && exit 0; }
  refused "$said"
fi
if checking; then
  echo "$total MiB; a check tests no memory"
  exit 0
fi
if [ "$tested" = "$made" ]; then
  echo "$total MiB; $size MiB were tested before"
elif [ "$size" -gt 0 ]; then
  command -v memtester >/dev/null ||
    refused "memtester is not here: boot the environment of etc/provisioner, install memtester, or set memory_test_mib to 0"
  if [ "$size" -gt $((free / 2)) ]; then
    size=$((free / 2))
    echo "only $free MiB are free: $size MiB are tested"
  fi
  code=0
  log=$OCB_RUN.memtester
  timeout "$seconds" memtester "${size}M" "$passes" >"$log" 2>&1 || code=$?
  found=$(tr '\b\r' '\n\n' <"$log" | grep -i -m 1 'failure' | cut -c1-200) || found=
  rm -f "$log"
  case $code in
  0) echo "$total MiB; $size MiB passed $passes times" ;;
  124) refused "the test of $size MiB did not end within $seconds s; test less (memory_test_mib), or give it more time (memory_seconds)" ;;
  *) [ $((code & 6)) = 0 ] || refused "the memory is broken: memtester found ${found:-a fault} (status $code)"
    refused "memtester could not test $size MiB (status $code); test less: memory_test_mib" ;;
  esac
fi
write_attribute commissioning/memory/tested "$made"
