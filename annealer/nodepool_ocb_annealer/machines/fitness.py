"""Whether this annealer may judge machines and work on them, by what it failed at itself.

What this host lacks (a private key) says nothing about any machine. Nor does it when machine after machine cannot be asked
for some other reason of this host, or when others reach the machines that do not answer this annealer: then the fault is
here. While there is such a trouble it neither probes nor claims, but for one machine now and then, to see whether it is over.
One machine alone never makes a trouble of an annealer that has reached any. One that is alone, and that no machine has let in
since it began, takes it for its own fault when two refuse its key. Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

SUSPECT_NODES: Final = 2  # failed at in a row: then it is not the node
REFUSALS_OF_ONE: Final = (
    5  # that a machine takes the key of an annealer that is alone, before another machine was heard
)


class Fitness:
    """What went wrong since a machine let us in."""

    def __init__(self) -> None:
        self._proven = False  # some machine has let us in
        self._lack: str | None = None
        self._unable: dict[str, str] = {}  # nodes that this host failed to ask → how
        self._refuted: dict[str, str] = {}  # nodes that others reach, and we do not → where that failed
        self._refusing: dict[str, str] = {}  # nodes that refuse our key, where no other can be asked → in which words
        self._refusals: Counter[str] = Counter()

    @property
    def trouble(self) -> str | None:
        """Why this annealer is of no use now, in one sentence; None where it is."""
        if self._lack:
            return f"this host cannot ask machines: {self._lack}"
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

    def well(self) -> None:
        """A machine let us in."""
        self._proven = True
        self._lack = None
        self._unable.clear()
        self._refuted.clear()
        self._refusing.clear()
        self._refusals.clear()

    def lacks(self, what: str | None) -> None:
        """This host lacks what it takes to ask any machine; None: it has it."""
        self._lack = what

    def unable(self, fqdn: str, how: str) -> None:
        """This host failed while it asked a machine."""
        _note(self._unable, fqdn, how)

    def unreached(self) -> None:
        """It asked, and a machine did not answer: so it can ask."""
        self._lack = None
        self._unable.clear()

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
