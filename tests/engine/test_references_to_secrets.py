"""References that no annealer that runs can resolve are refused where they are written."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine.inputs.references import refuse_unresolvable
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Daemon, Json


def running(*references: tuple[str, ...] | None) -> World:
    world = World()
    for number, each in enumerate(references):
        daemon = Daemon(host="h", pid=1, version="1", started=0.0, references=each)
        world.put(Stored(daemon, 0), "annealer", str(number))
    return world


FILE: Json = {"db": {"password": {"$secret": "file:/etc/db"}}}
VAULT: Json = {"db": {"password": {"$secret": "vault:a/b#c"}}}


def test_a_kind_that_no_annealer_can_resolve_is_refused_with_the_setting() -> None:
    with pytest.raises(Conflict, match=r"^db/password: vault:a/b#c .*no annealer that runs has secrets\.vault"):
        refuse_unresolvable(running(("env", "file"), ("env",)), VAULT)


@pytest.mark.parametrize(
    "world", [running(), running(None), running(("env",), None), running(("env",), ("env", "vault"))]
)
def test_it_is_not_refused_where_one_can_or_may_or_none_runs(world: World) -> None:
    refuse_unresolvable(world, VAULT)


def test_what_stands_there_already_hinders_no_other_attribute() -> None:
    refuse_unresolvable(running(("env",)), {**VAULT, "more": 1}, VAULT)
    with pytest.raises(Conflict, match=r"secrets\.directory"):
        refuse_unresolvable(running(("env",)), FILE, VAULT)


@pytest.mark.parametrize("text", ["env:DB", "file:etc", "vault:a//b#c", "vault:../x#y", "ftp:x", "file:/x\0"])
def test_a_text_that_no_annealer_resolves_anywhere_is_refused_unless_it_stood_there(text: str) -> None:
    bad: Json = {"db": {"$secret": text}}
    with pytest.raises(Invalid):
        secrecy.checked(bad)
    secrecy.checked({**bad, "more": 1}, bad)
