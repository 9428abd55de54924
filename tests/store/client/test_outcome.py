"""The verdict on a transaction whose answer was lost, from what its znodes look like."""

from __future__ import annotations

import pytest

from nodepool_ocb.model.records import Append, Change, Check, Create, Delete, Set, Structure
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode, ZnodeStat
from nodepool_ocb.store.client.outcome import Finding, Verdict, find, stats

OURS, THEIRS = {"run": "ours"}, {"run": "theirs"}
CREATE, SET, DELETE = Create("/c", OURS), Set("/s", OURS, 4), Delete("/d", 2)
CLAIM, CHECK = Create("/e", OURS, ephemeral=True), Check("/k", 7)
ENTRY = Append("/j", Structure())
APPLIED, LOST, UNKNOWN = Finding(Verdict.APPLIED), Finding(Verdict.LOST), Finding(Verdict.UNKNOWN)


def at(version: int, data: object = OURS) -> Znode:
    return Znode("/", codec.encode(data), version, 100 + version)


@pytest.mark.parametrize(
    ("changes", "found", "finding"),
    [
        ([SET], [at(4)], LOST),
        ([SET], [at(5)], APPLIED),
        ([SET], [at(5, THEIRS)], Finding(Verdict.REFUSED, "/s")),
        ([SET], [at(6)], UNKNOWN),
        ([SET], [None], UNKNOWN),
        ([CREATE], [None], LOST),
        ([CREATE], [at(0)], APPLIED),
        ([CREATE], [at(0, THEIRS)], Finding(Verdict.REFUSED, "/c")),
        ([CREATE], [at(1, THEIRS)], UNKNOWN),
        ([DELETE], [None], APPLIED),
        ([DELETE], [at(2)], LOST),
        ([DELETE], [at(3)], UNKNOWN),
        ([CLAIM], [None], LOST),
        ([CLAIM], [at(0)], APPLIED),
        ([CLAIM], [at(0, THEIRS)], UNKNOWN),  # ours may have come and gone with its session
        ([CHECK, SET], [at(7), at(5)], APPLIED),
        ([CHECK, SET], [at(9), at(5)], APPLIED),  # checked then, changed since
        ([CHECK, SET], [at(9), at(4)], Finding(Verdict.REFUSED, "/k")),
        ([CHECK, SET], [None, at(4)], Finding(Verdict.REFUSED, "/k")),
        ([SET, CREATE], [at(4), None], LOST),
        ([SET, CREATE], [at(6), at(0)], APPLIED),  # one that tells is enough
        ([SET, DELETE], [at(6), None], UNKNOWN),
        ([SET, CREATE], [at(4), at(0, THEIRS)], Finding(Verdict.REFUSED, "/c")),
        ([SET, DELETE], [at(5), at(2)], LOST),  # "not applied" is certain
        ([CREATE, DELETE], [None, None], UNKNOWN),
        ([Delete("/e", 3), CLAIM], [at(0), at(0)], APPLIED),  # made anew: that tells
        ([SET, CLAIM, Delete("/e", 0)], [at(6), at(0, THEIRS), at(0, THEIRS)], UNKNOWN),  # another holds it now
        ([SET, CLAIM, Delete("/e", 0)], [at(5), at(0, THEIRS), at(0, THEIRS)], APPLIED),
        ([SET, CLAIM, Delete("/e", 0)], [at(4), None, None], LOST),
        ([SET, ENTRY], [at(4), at(0)], LOST),  # it is written anew, and then the entry comes for the first time
        ([SET, ENTRY], [at(5), at(0)], APPLIED),
        ([SET, ENTRY], [at(6), at(0)], UNKNOWN),  # what was appended tells nothing
        ([CREATE, ENTRY], [None, at(0)], LOST),
        ([SET, CLAIM], [at(5), None], APPLIED),  # and the session with the claim is gone
    ],
)
def test_the_verdict(changes: list[Change], found: list[Znode | None], finding: Finding) -> None:
    data = [codec.encode(c.data) if isinstance(c, Create | Set) else b"" for c in changes]
    assert find(changes, data, found) == finding


def test_the_stats_of_an_applied_transaction() -> None:
    assert stats([CHECK, SET, DELETE, CREATE], [at(7), at(5), None, at(0)]) == [
        None,
        ZnodeStat(5, 105),
        None,
        ZnodeStat(0, 100),
    ]
