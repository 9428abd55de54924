"""The verdict on a transaction whose answer was lost, from its znodes as they are now."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nodepool_ocb.model.records import Append, Change, Check, Create, Delete, Gate, Raise, Set, Structure
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode, ZnodeStat
from nodepool_ocb.store.client.outcome import (
    Appended,
    SentTransaction,
    TransactionFate,
    TransactionOutcome,
    find,
    signed,
    stats,
)

BEFORE, SENT = 100, 150  # zxids: the newest that was seen at the sending, and of the transaction where it was applied
US, THEM = "our-transact", "an-other-one"
RECORD, PLAIN = Structure(epoch=7), {"run": "r1"}
CREATE, SET, DELETE = Create("/c", RECORD), Set("/s", RECORD, 4), Delete("/d", 2)
BARE, ATTRIBUTES = Create("/b"), Set("/a", PLAIN, 4)
CLAIM, CHECK, RAISE = Create("/e", RECORD, ephemeral=True), Check("/k", 7), Raise("/g", Gate(by="a@b"))
ENTRY = Append("/j", Structure())
LOST, UNKNOWN = TransactionOutcome(TransactionFate.LOST), TransactionOutcome(TransactionFate.UNKNOWN)


def applied(zxid: int = SENT) -> TransactionOutcome:
    return TransactionOutcome(TransactionFate.APPLIED, zxid=zxid)


def refused(path: str) -> TransactionOutcome:
    return TransactionOutcome(TransactionFate.REFUSED, path)


def old(version: int, by: str = THEM, changed: int = SENT) -> Znode:
    """It exists since before the sending; ``by`` wrote it last, and wrote the same record as we did."""
    return Znode("/", codec.signed(codec.encode(RECORD), by), version, changed, czxid=BEFORE - 50)


def new(by: str = THEM, version: int = 0) -> Znode:
    """It was made since the sending."""
    return Znode("/", codec.signed(codec.encode(RECORD), by), version, SENT, czxid=SENT)


def plain(version: int, data: object = PLAIN, made: int = BEFORE - 50) -> Znode:
    return Znode("/", codec.encode(data), version, SENT, czxid=made)


@pytest.mark.parametrize(
    ("changes", "found", "finding"),
    [
        ([SET], [old(4)], LOST),
        ([SET], [old(5, US)], applied()),
        ([SET], [old(5)], refused("/s")),  # another writer wrote the same record
        ([SET], [old(6)], UNKNOWN),
        ([SET], [old(6, changed=BEFORE)], refused("/s")),  # and did so before the sending
        ([SET], [None], UNKNOWN),
        ([SET], [new(version=4)], UNKNOWN),  # ours may have been deleted, and made anew since
        ([CREATE], [None], UNKNOWN),  # ours may have been deleted
        ([CREATE], [new(US)], applied()),
        ([CREATE], [new()], UNKNOWN),
        ([CREATE], [old(0)], refused("/c")),
        ([DELETE], [None], UNKNOWN),  # another may have deleted it
        ([DELETE], [old(2)], LOST),
        ([DELETE], [old(3)], refused("/d")),
        ([DELETE], [new(version=2)], UNKNOWN),
        ([CLAIM], [None], UNKNOWN),
        ([CLAIM], [new(US)], applied()),
        ([CLAIM], [new()], UNKNOWN),
        ([BARE], [plain(0, None, SENT)], UNKNOWN),  # an empty znode is the same for all
        ([BARE], [plain(0, None)], refused("/b")),
        ([ATTRIBUTES], [plain(5)], UNKNOWN),  # another writer may have given the same attributes
        ([ATTRIBUTES], [plain(5, {})], refused("/a")),
        ([ATTRIBUTES], [plain(4)], LOST),
        ([RAISE], [old(9)], UNKNOWN),
        ([RAISE], [old(9, US)], UNKNOWN),  # it has the signature, and is no gate of ours
        ([CHECK, SET], [old(7), old(5, US)], applied()),
        ([CHECK, SET], [old(9), old(5, US)], applied()),  # checked then, changed since
        ([CHECK, SET], [old(9), old(4)], refused("/k")),
        ([CHECK, SET], [None, old(4)], refused("/k")),
        ([CHECK, BARE], [old(9, changed=BEFORE), None], refused("/k")),
        ([CHECK, BARE], [old(9), None], UNKNOWN),
        ([SET, CREATE], [old(4), None], LOST),
        ([SET, CREATE], [old(5), None], refused("/s")),
        ([SET, CREATE], [old(6), new(US)], applied()),  # one that proves it is enough
        ([SET, CREATE], [old(6), None], UNKNOWN),
        ([SET, CREATE], [old(4), new()], refused("/c")),
        ([SET, DELETE], [old(6), None], UNKNOWN),
        ([CREATE, DELETE], [None, None], UNKNOWN),
        ([Delete("/e", 3), CLAIM], [new(US), new(US)], applied()),  # made anew
        ([Delete("/e", 3), CLAIM], [old(3), old(3)], LOST),
        ([Delete("/e", 3), CLAIM], [old(4), old(4)], refused("/e")),
        ([SET, CLAIM, Delete("/e", 0)], [old(6), new(), new()], UNKNOWN),  # another holds it now
        ([SET, CLAIM, Delete("/e", 0)], [old(5, US), new(), new()], applied()),
        ([SET, CLAIM, Delete("/e", 0)], [old(4), None, None], LOST),
        ([SET, CLAIM], [old(5, US), None], applied()),  # and the session with the claim is gone
    ],
)
def test_the_verdict(changes: list[Change], found: list[Znode | None], finding: TransactionOutcome) -> None:
    assert find(sending(changes), found) == finding


@pytest.mark.parametrize(
    ("appended", "finding"),
    [
        (Appended(zxid=SENT), applied()),
        (Appended(absent=True), LOST),
        (Appended(), UNKNOWN),
    ],
)
def test_an_entry_of_the_journal_proves_both(appended: Appended, finding: TransactionOutcome) -> None:
    assert find(sending([BARE, ENTRY]), [None, old(0)], [appended]) == finding


def test_a_gate_with_our_signature_proves_that_it_was_applied() -> None:
    raised = codec.signed(codec.encode(RAISE.data), US)
    assert find(sending([RAISE]), [Znode("/g", raised, 9, SENT, czxid=1)]) == applied()


def test_the_stats_of_an_applied_transaction() -> None:
    found = [old(7), old(5, US), None, new(US)]
    assert stats(sending([CHECK, SET, DELETE, CREATE]), found, SENT) == [
        None,
        ZnodeStat(5, SENT),
        None,
        ZnodeStat(0, SENT),
    ]


def test_the_stats_are_those_of_the_transaction_though_others_wrote_since() -> None:
    later = Znode("/s", b"", 9, SENT + 20, czxid=1)
    assert stats(sending([SET, CREATE]), [later, None], SENT) == [ZnodeStat(5, SENT), ZnodeStat(0, SENT)]


def sending(changes: Sequence[Change]) -> SentTransaction:
    """These changes as they were sent."""
    data = [
        codec.encode(change.data) if isinstance(change, Create | Set | Raise | Append) else b"" for change in changes
    ]
    return SentTransaction(
        changes,
        [codec.signed(each, US) if signed(change) else each for change, each in zip(changes, data, strict=True)],
        BEFORE,
    )
