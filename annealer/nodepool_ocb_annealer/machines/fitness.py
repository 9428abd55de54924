"""Whether this annealer may judge machines and work on them, by its own failures.

A fault of this host says nothing about any machine: a private key that is missing, and each row of ``jigs/ssh/faults.py`` with
that party. It is a trouble at once, and until a new connection to a machine is made. Where the others are reached and one is
not, that node alone is not judged, and it makes no further trouble. An exception that nothing foresaw is a trouble at the second
machine. So it is where others reach the machines that do not answer this annealer. While there is a trouble the annealer neither
claims nor probes, but for a trial now and then. An annealer that is alone, and that no machine has let in since it began, takes
it for its own fault when two refuse its key. Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

SUSPECT_NODES: Final = 2  # failed at in a row: then it is not the node
REFUSALS_OF_ONE: Final = (
    5  # that a machine takes the key of an annealer that is alone, before another machine was heard
)


class Fitness:
    """The faults since a machine let this annealer in."""

    def __init__(self) -> None:
        self._proven = False  # some machine has let us in
        self._lack: str | None = None
        self._unable: dict[str, str] = {}  # nodes that this host failed to ask → how
        self._certain: set[str] = set()  # of these: for a fault that the table calls this host's own
        self._apart: set[str] = set()  # nodes that this host failed to ask while it reached another
        self._refuted: dict[str, str] = {}  # nodes that others reach, and we do not → where that failed
        self._refusing: dict[str, str] = {}  # nodes that refuse our key, where no other can be asked → in which words
        self._refusals: Counter[str] = Counter()

    @property
    def trouble(self) -> str | None:
        """Why this annealer is of no use now, in one sentence; None where it is."""
        if self._lack:
            return f"this host cannot ask machines: {self._lack}"
        if certain := {fqdn: how for fqdn, how in self._unable.items() if fqdn in self._certain}:
            return f"this host fails to reach machines: {_newest(certain)}"
        if len(self._unable) >= SUSPECT_NODES:
            return f"this host fails to ask one machine after another: {_newest(self._unable)}"
        if len(self._refuted) >= SUSPECT_NODES or (self._refuted and not self._proven):
            reason = _newest(self._refuted)
            what = "no machine takes my key" if reason.startswith("authenticate:") else "no machine answers me"
            return f"{what}, and other annealers reach them: {reason}"
        if len(self._refusing) >= SUSPECT_NODES:
            fqdn, reason = next(iter(self._refusing.items()))
            return f"no machine takes my key: {reason} ({fqdn})"
        return None

    @property
    def failing(self) -> str | None:
        """A node that this host failed to ask last: the operation that failed is to be repeated there."""
        return next(reversed(self._unable), None)

    def well(self, fqdn: str | None = None, fresh: bool = True) -> None:
        """A machine let us in; ``fresh``: over a new connection, which proves that this host can make one."""
        self._proven = True
        if fresh:
            self._lack = None
            self._apart |= self._unable.keys()
            self._apart.discard(fqdn or "")
            self._unable.clear()
            self._certain.clear()
        self._refuted.clear()
        self._refusing.clear()
        self._refusals.clear()

    def lacks(self, what: str | None) -> None:
        """The thing that this host lacks for asking any machine; None: nothing."""
        self._lack = what

    def unable(self, fqdn: str, how: str, certain: bool = False) -> None:
        """This host failed while it asked a machine; ``certain``: the table says that the fault is its own."""
        if fqdn in self._apart:
            return
        _note(self._unable, fqdn, how)
        if certain:
            self._certain.add(fqdn)

    def forget(self, fqdn: str) -> None:
        """The node is asked no more: a fault met at it can never be repeated there, and its name may come again."""
        for known in (self._unable, self._refuted, self._refusing, self._refusals):
            known.pop(fqdn, None)
        self._certain.discard(fqdn)
        self._apart.discard(fqdn)

    def unreached(self) -> None:
        """Note that this host asked a machine that did not answer: so the host has the means to ask."""
        self._lack = None
        self._unable = {fqdn: how for fqdn, how in self._unable.items() if fqdn in self._certain}

    def refuted(self, fqdn: str, reason: str) -> None:
        """Another annealer has reached a machine that we did not reach, at the step with which ``reason`` begins."""
        _note(self._refuted, fqdn, reason)

    def refused(self, fqdn: str, reason: str) -> None:
        """A machine refuses the key, and no other annealer can be asked."""
        if not self._proven:
            self._refusing[fqdn] = reason
            self._refusals[fqdn] += 1

    def doubtful(self, fqdn: str) -> bool:
        """Whether it may be our own fault that the machine refuses the key, as far as we know."""
        return not self._proven and (self.trouble is not None or self._refusals[fqdn] < REFUSALS_OF_ONE)


def _note(reasons: dict[str, str], fqdn: str, reason: str) -> None:
    if reasons.get(fqdn) != reason:
        reasons.pop(fqdn, None)
        reasons[fqdn] = reason


def _newest(reasons: dict[str, str]) -> str:
    """With the first machine that it was said of: another machine is no news, and news are written for all to read."""
    newest = next(reversed(reasons.values()))
    fqdn = next(fqdn for fqdn, reason in reasons.items() if reason == newest)
    return f"{newest} ({fqdn})"
