"""The keys of leases in ``authorized_keys`` of a machine's login: their marks, and their removal between two users.

``lease run`` puts its key there and takes it away. If it was killed, its line stays. Each line ends in a mark that names the
slot, so lines of other slots of the machine stay, and so do all other lines. The file keeps its mode and its owner.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterable
from typing import Final

from nodepool_ocb.jigs.ssh.asking import ask
from nodepool_ocb.jigs.ssh.link import Link

MARK: Final = "nodepool-ocb-lease-"

#: $1: the word of the answer; the others: -e and an expression for the end of a line, for each slot. Without such a line
#: nothing is written. The lock is a directory, which ``lease run`` makes, too (leasing.access).
_REMOVE: Final = r"""
word=$1
shift
say() { printf '\n%s %s\n' "$word" "$1"; exit 0; }
file=~/.ssh/authorized_keys
lock=~/.ssh/.nodepool-ocb.lock
[ -e "$file" ] || [ -L "$file" ] || say done
[ -r "$file" ] || { [ -L "$file" ] && say done; say "$file cannot be read"; }
grep -q "$@" "$file" || say done
[ ! -L "$file" ] || say "$file is a symbolic link and has keys of ended leases"
[ -f "$file" ] || say "$file is no file"
tries=0
until mkdir "$lock" 2>/dev/null; do
  tries=$((tries + 1))
  if [ "$tries" -gt 50 ]; then
    rmdir "$lock" 2>/dev/null || say "$lock cannot be made, so keys of ended leases stay"
    tries=0
  fi
  sleep 0.1
done
trap 'rmdir "$lock"; rm -f "$file.$word"' EXIT
mode=$(stat -c %a "$file") && cp -p "$file" "$file.$word" && chmod u+w "$file.$word" || say "$file.$word cannot be made"
grep -v "$@" "$file" > "$file.$word" || [ $? = 1 ] || say "$file.$word cannot be written"
chmod "$mode" "$file.$word" && mv -f "$file.$word" "$file" || say "$file cannot be replaced"
say done
"""


def ending(slot: int | None) -> str:
    """The part of a mark that names the slot.

    >>> ending(1), ending(None)
    ('-slot1', '')
    """
    return "" if slot is None else f"-slot{slot}"


def withdraw(link: Link, slots: Iterable[int], count: int, seconds: float) -> str | None:
    """Remove the keys of leases of these slots; of a machine with one slot (``count``), the keys of all leases.

    Gives the reason if they stay. None also for a machine without a POSIX shell, where no lease could put a key. Raises
    Broken or OwnFault.
    """
    word = secrets.token_hex(8)
    endings = [r"\(-slot[0-9]*\)*"] if count == 1 else map(ending, slots)
    words = [word, *(part for each in endings for part in ("-e", rf" {MARK}[0-9a-f][0-9a-f]*{each}$"))]
    said = ask(link, f"sh -c {shlex.quote(_REMOVE)} sh {shlex.join(words)}", seconds)
    answers = [line.removeprefix(f"{word} ") for line in said.splitlines() if line.startswith(f"{word} ")]
    if not answers or answers[-1] == "done":
        return None
    return f"{answers[-1][:300]}; remove the lines that end in {MARK}..."
