"""References to secrets of a kind that no running annealer can resolve, by the registrations of annealers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json

#: The kinds that an annealer can resolve only with a setting.
SETTINGS: Final[Mapping[str, str]] = {"file": "secrets.directory", "vault": "secrets.vault"}


def refuse_unresolvable(world: World, after: Json, before: Json = None) -> None:
    """Raises Conflict if a reference is new in ``after``, and of a kind that no annealer that runs can resolve."""
    able = [daemon.references for daemon in world.annealers.values()]
    kinds = {kind for each in able for kind in each or SETTINGS}
    known = {text for _, text in secrecy.found(before)}
    for place, text in secrecy.found(after) if able else ():
        kind = text.partition(":")[0]
        if text not in known and kind in SETTINGS and kind not in kinds:
            raise Conflict(
                f"{place}: {secrecy.shown(text)} cannot be resolved: no annealer that runs has {SETTINGS[kind]}; set it in"
                " their configuration and reload them (systemctl reload nodepool-ocb-annealer), or refer to something else"
            )
