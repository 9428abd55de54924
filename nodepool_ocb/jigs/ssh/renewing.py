"""The runner's state on a machine is renewed for another user: its runs end, and their files go.

The epochs stay, since a machine must refuse the orders of its former lives. Processes that a script left running stay, too.
"""

from __future__ import annotations

import secrets
import shlex
from typing import Final

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh.asking import ask
from nodepool_ocb.jigs.ssh.keys import load_keys
from nodepool_ocb.jigs.ssh.link import Broken, connect
from nodepool_ocb.model.records import Node

#: Arguments: the state directory, the word to print at the end. The files go first: a keeper without files records nothing.
RENEW: Final = r"""
case $1 in "~/"*) d=$HOME/${1#"~/"} ;; *) d=$1 ;; esac
if [ -d "$d" ]; then
  [ -O "$d" ] && [ ! -L "${d%/}" ] || { echo "$d belongs to another user"; exit 1; }
  rm -rf "$d/runs" "$d/current" "$d/reserve" "$d"/history* "$d"/incoming.* || exit
  tries=0
  while :; do
    groups=
    for process in $(grep -lsF "$d/runs/" /proc/[0-9]*/cmdline); do
      { IFS= read -r stat <"${process%/cmdline}/stat"; } 2>/dev/null || continue
      set -- "$1" "$2" ${stat##*) }
      case $3 in Z | X) continue ;; esac
      groups="$groups -$5"
    done
    [ -n "$groups" ] || break
    [ $tries -lt 100 ] || { echo "its runs do not end"; exit 1; }
    tries=$((tries + 1))
    kill -s KILL -- $groups 2>/dev/null
    sleep 0.05
  done
  rm -rf "$d/runs"
fi
printf "\n%s\n" "$2"
"""


def renew(name: str, node: Node, settings: SshSettings) -> Unreachable | None:
    """None when no run of an annealer is left on the machine. Raises OwnFault, NoKey among them."""
    link = connect(name, node, settings, load_keys(settings), node.host_keys)
    if isinstance(link, Unreachable):
        return link
    word = secrets.token_hex(8)
    try:
        command = f"sh -c {shlex.quote(RENEW)} sh {shlex.quote(settings.state_dir)} {word}"
        said = ask(link, command, settings.connect_timeout_seconds + 10.0)
    except Broken as broken:
        return broken.unreachable
    finally:
        link.close()
    if word in said.splitlines():
        return None
    return Unreachable("run", f"the state in {settings.state_dir} was not removed: {' '.join(said.split())[:300]}")
