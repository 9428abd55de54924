"""Daemons, claims and locks as they are shown."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.model.records import Daemon, LockOwner
from nodepool_ocb.views import daemons, locks
from nodepool_ocb.views.view import plain
from tests.views.small import BASE, N1, small

OWNER = LockOwner(daemon="b1", host="h2", pid=9, purpose="build of jammy", since=4.0)


def test_daemons_stand_by_kind_and_id_without_those_that_cannot_be_read() -> None:
    known = Daemon(host="h", pid=7, version="1", started=4.0, jigs=("noop",), slots=3, trouble="its disk is full")
    known = replace(known, left_out={"jig acme": "it has no `run`"})
    rows = daemons.rows({"builder": {"z": known, "a": known}, "annealer": {"x": known, "gone": None}})
    assert [(row.kind, row.id) for row in rows] == [("annealer", "x"), ("builder", "a"), ("builder", "z")]
    assert list(plain(rows[0]).items()) == [
        ("kind", "annealer"),
        ("id", "x"),
        ("state", "running"),
        ("trouble", "its disk is full"),
        ("paused", None),
        ("host", "h"),
        ("pid", 7),
        ("version", "1"),
        ("slots", 3),
        ("jigs", ["noop"]),
        ("left_out", ["jig acme: it has no `run`"]),
        ("pages", None),
        ("started", 4.0),
    ]


def test_a_claim_tells_whose_it_is_and_where_that_annealer_runs() -> None:
    world = small()
    (claim,) = locks.claims(world)
    assert list(plain(claim).items()) == [
        ("kind", "node"),
        ("name", N1),
        ("node", N1),
        ("owner", "a1"),
        ("host", "h1"),
        ("session", "0xabc"),
        ("noderole", BASE),
        ("purpose", BASE),
        ("run", "r1"),
        ("epoch", 6),
        ("since", 8.0),
    ]
    world.daemons.clear()
    assert locks.claims(world)[0].host is None


def test_a_lock_that_nobody_holds_is_not_shown() -> None:
    (row,) = locks.locks({("image", "noble"): None, ("image", "jammy"): OWNER})
    assert list(plain(row).items()) == [
        ("kind", "image"),
        ("name", "jammy"),
        ("owner", "b1"),
        ("host", "h2"),
        ("pid", 9),
        ("purpose", "build of jammy"),
        ("since", 4.0),
    ]
