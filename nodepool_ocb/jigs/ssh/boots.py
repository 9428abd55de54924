"""The boot of a machine, over ssh: its id, and the order to boot. boot.sh is the machine's side."""

from __future__ import annotations

import re
import shlex
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh.asking import ask
from nodepool_ocb.jigs.ssh.link import Broken
from nodepool_ocb.jigs.ssh.pool import Pool
from nodepool_ocb.model.records import Node
from nodepool_ocb.provisioning.installation import BootLook

_ANSWER: Final = re.compile(r"^(BOOT|FENCED) (\S{1,100})$", re.MULTILINE)
HOST_KEY: Final = "host key"  # the step at which another key than the pinned one shows


class BootQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """``reboot``: the command that is run while the machine has the boot ``boot_id``; empty: only look."""

    epoch: int  # of the claim
    file: str  # that changes with each boot
    boot_id: str = ""
    reboot: str = ""
    former: tuple[str, ...] = ()  # the host keys of the system before: to be told from those of a stranger


@cache
def _script() -> str:
    return (files("nodepool_ocb.jigs.ssh") / "boot.sh").read_text()


def look(pool: Pool, fqdn: str, node: Node, question: BootQuestion) -> BootLook:
    """The answer of the machine. ``node.host_keys``: those that are expected. Raises OwnFault where this host fails."""
    link = pool.take(fqdn, node)
    if isinstance(link, Unreachable):
        another = link.step == HOST_KEY
        former = another and any(f"offers {' '.join(key.split()[:2])}," in link.why for key in question.former)
        return BootLook(another=another, former=former, why=link.why)
    words = [_script(), "boot", pool.settings.state_dir, str(question.epoch), question.file]
    words += [question.boot_id, question.reboot] if question.reboot else []
    try:
        said = ask(link, f"exec sh -c {shlex.join(words)}", pool.settings.connect_timeout_seconds)
    except Broken as broken:
        pool.discard(link)
        return BootLook(why=broken.unreachable.why)
    finally:
        pool.give_back(link)
    found = _ANSWER.search(said)
    if found is None:
        return BootLook(why=f"run: it does not say which boot it has: {' '.join(said.split())[:200]}")
    if found[1] == "BOOT":
        return BootLook(boot_id=found[2])
    return BootLook(fenced=int(found[2])) if found[2].isdecimal() else BootLook(why="run: its epoch is no number")
