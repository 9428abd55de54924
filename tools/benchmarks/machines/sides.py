"""The peers at the same work: pyinfra and Ansible, each in its intended use."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from benchmarks import peers
from benchmarks.machines.ours import AT_ONCE, SCRIPT
from benchmarks.machines.steps import Round
from nodepool_ocb.model.records import Node
from nodepool_ocb.testing.machines import Farm

PYINFRA: Final = "pyinfra"
ANSIBLE: Final = "Ansible"
ABOUT_ANSIBLE: Final = f"Ansible: forks {AT_ONCE}, pipelining, ControlMaster"


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The work of a round, as a peer does it. ``layers``: values in groups of machines, each inside the one before it.

    Each step has the values of ``uses`` behind its command. ``secrets`` are encrypted for a peer that can do this.
    """

    machines: Sequence[Mapping[str, str | int]]
    key: str
    steps: Sequence[str]
    user: str = getpass.getuser()
    parallel: int = AT_ONCE
    module: Literal["command", "shell"] = "command"  # of Ansible
    layers: Sequence[Mapping[str, str]] = ()
    secrets: Mapping[str, str] = {}
    uses: Sequence[str] = ()

    def first(self, count: int) -> Work:
        """The same on the first machines alone."""
        return replace(self, machines=self.machines[:count])

    def of_steps(self, count: int) -> Work:
        """The first steps alone."""
        return replace(self, steps=self.steps[:count])


def work(farm: Farm, steps: int, script: str = SCRIPT, machines: Sequence[tuple[str, Node]] = ()) -> Work:
    """A number of steps with the same script; ``machines`` as for ``our_side``."""
    places = [address(node.addresses[0]) for _, node in machines or farm.records()]
    return Work(
        machines=[{"host": host, "port": port} for host, port in places],
        key=farm.settings()["key_files"][0],
        steps=[f"{script} step {number}" for number in range(steps)],
    )


def pyinfra(work: Work) -> list[Round]:
    """The round; none where pyinfra could not be installed."""
    return _round("pyinfra_steps", work)


def ansible(work: Work) -> list[Round]:
    """The round; none where Ansible could not be installed."""
    return _round("ansible_steps", work)


def _round(peer: str, work: Work) -> list[Round]:
    answer = peers.ask(peer, msgspec.to_builtins(work))
    return [msgspec.convert(answer, Round)] if answer is not None else []


def address(text: str) -> tuple[str, int]:
    """Host and port of ``host:port``.

    >>> address("127.0.1.2:2022")
    ('127.0.1.2', 2022)
    """
    host, _, port = text.rpartition(":")
    return host, int(port)
