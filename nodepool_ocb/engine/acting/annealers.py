"""The annealers that may act on a noderole, and the reasons of those that may not. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from nodepool_ocb.engine import maintenance
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Daemon

#: The way to start an annealer, with units and without.
START: Final = "systemctl start nodepool-ocb-annealer, or without systemd: nodepool-ocb-annealer"


def active_jigs(world: World) -> set[str] | None:
    """The jigs of the running annealers; None if no annealer runs, so that none can be asked."""
    return {jig for daemon in world.annealers.values() for jig in daemon.jigs} if world.annealers else None


class Unable(msgspec.Struct, frozen=True):
    """An annealer that begins nothing."""

    identity: str
    paused: bool  # else it is not ready
    text: str
    advice: str


def unable(world: World, jig: str, on_machine: bool) -> list[Unable]:
    """Each annealer that could run this jig, with its reason, if none of them begins any work; else an empty list.

    If no annealer has the jig, all annealers are judged. ``on_machine``: whether the node is a machine; a trouble of an annealer
    concerns machines alone.
    """
    having = {identity: daemon for identity, daemon in sorted(world.annealers.items()) if jig in daemon.jigs}
    among = having or dict(sorted(world.annealers.items()))
    found = [each for identity, daemon in among.items() if (each := _unable(identity, daemon, on_machine))]
    return found if len(found) == len(among) else []


def _unable(identity: str, daemon: Daemon, on_machine: bool) -> Unable | None:
    if daemon.paused:
        advice = maintenance.resuming_daemons("annealer", daemon.host)
        return Unable(identity, True, f"annealer {identity} is paused {daemon.paused}", advice)
    if daemon.state == "draining":
        text = f"annealer {identity} is ending: it begins nothing new"
        return Unable(identity, False, text, "start another one, or wait for its restart")
    if daemon.trouble and on_machine:
        text = f"annealer {identity} is not ready: {daemon.trouble}"
        return Unable(identity, False, text, "mend that; the annealer checks again every few seconds")
    return None
