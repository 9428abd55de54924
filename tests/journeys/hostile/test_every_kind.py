"""Every kind of record × twelve kinds of damage: ``status`` names each, ``record`` shows and deletes it, no daemon spins.

The records of a damage are spoiled all at once, so that what one does to another is seen, too; the long form takes every
damage, the default form two. The deletion is tried of each alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, get_type_hints

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Claim, Create, LockOwner, Pointer, Record
from nodepool_ocb.store import quarantine
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.subtree import subtree
from tests.journeys.hostile.canaries import Canaries
from tests.journeys.hostile.test_records import ask
from tests.journeys.hostile.village import ID, IMAGE, KINDS, LAB, NODE, PROVIDER, TASKS

Kind = type[Record] | None

#: What is not spoiled beside others, for every command rests on it.
ALONE: Final = (paths.CLUSTER, paths.STRUCTURE)

#: ``status`` finds this lock by its upload, so it is not spoiled together with the upload.
BEHIND: Final = f"{paths.upload_lock(IMAGE, ID, PROVIDER)}/"

#: What ``record delete`` refuses in any case, for other records count on its version, or would be left without it.
KEPT: Final = {
    paths.CLUSTER: "until it is written anew",
    paths.STRUCTURE: "never deleted",
    paths.fence(NODE): "never deleted",
    paths.gate(LAB, "victim"): "never deleted",
    paths.deployment(LAB): "would be left without it",
    paths.noderole("victim", NODE): "would be left without it",
}

#: Who works on some of it: a claim, and contenders of locks.
HELD: Final = tuple(path for kind, path in KINDS if kind in (Claim, LockOwner))

#: What is refused while one of these is there.
USED: Final = (
    f"{paths.node(NODE)}/noderoles", paths.node(NODE), paths.rollouts(LAB), paths.task_runs(TASKS), paths.WEBHOOK,
    paths.builds(IMAGE),
)  # fmt: skip


def _field(kind: Kind, wanted: Callable[[str], bool]) -> str | None:
    """The first key of a record whose type is such."""
    if kind is None:
        return None
    hints = get_type_hints(kind, include_extras=True)
    return next((name for name in kind.__struct_fields__ if name != "unknown" and wanted(repr(hints[name]))), None)


def _with(good: bytes, key: str | None, value: str) -> bytes:
    """The good record with another value of a key; where it has no such key, the value alone."""
    if key is None:
        return value.encode()
    rest = {name: each for name, each in json.loads(good or b"{}").items() if name not in (key, "schema")}
    body = "".join(f",{json.dumps(name)}:{json.dumps(each)}" for name, each in rest.items())
    return f'{{"schema":1{body},{json.dumps(key)}:{value}}}'.encode()


DAMAGES: Final[dict[str, Callable[[Kind, bytes], bytes]]] = {
    "binary": lambda *_: bytes(range(256)),
    "truncated": lambda _, good: good[: len(good) // 2] or b"{",
    "too large": lambda _, good: _with(good, "later", json.dumps("x" * 600_000)),
    "empty": lambda *_: b"",
    "wrong type": lambda *_: b"[]",
    "newer schema": lambda *_: b'{"schema":2,"state":"of a later version"}',
    "NUL": lambda _, good: good + b"\0",
    "huge number": lambda kind, good: _with(
        good, _field(kind, lambda hint: "int" in hint or "float" in hint), "9" * 30
    ),
    "list for mapping": lambda kind, good: _with(good, _field(kind, lambda hint: "Mapping" in hint), '["a"]'),
    "unknown enum": lambda kind, good: _with(
        good, _field(kind, lambda hint: "enum" in hint or "State" in hint), '"odd"'
    ),
    "deep nesting": lambda _, good: _with(good, "later", "[" * 5000 + "]" * 5000),
    "duplicate keys": lambda _, good: b'{"schema":1,"schema":2,' + (good.lstrip(b"{") or b"}"),
}


def test_the_table_has_every_kind_of_record_and_twelve_damages() -> None:
    def below(kind: Any) -> Iterator[Any]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    assert {kind for kind in below(Record) if kind.__module__.startswith("nodepool_ocb.")} - {Pointer} == {
        kind for kind, _ in KINDS if kind is not None
    }
    assert len(DAMAGES) == 12


@pytest.mark.parametrize(
    "damage", [pytest.param(each, marks=[pytest.mark.long] if n else []) for n, each in enumerate(DAMAGES)]
)
def test_records_of_every_kind_that_are_damaged_at_once_are_named_and_nothing_spins(
    village: Canaries, damage: str
) -> None:
    """What is not damaged goes on, and what is mended counts again."""
    failures, good = village.turn_failures(), _stood(village)
    chosen = [(kind, path) for kind, path in KINDS if path not in ALONE and not path.startswith(BEHIND)]
    spoiled = {path: DAMAGES[damage](kind, good[path].data) for kind, path in chosen}
    try:
        for path, data in spoiled.items():
            village.session._client.set(path, data)
        village.sing()
        village.quiet(lines=6, writes=15)
        _named(village, list(spoiled))
    finally:
        for path in reversed(spoiled):  # an execution before its pointer: its driver, if it has one yet, reads it then
            village.session._client.set(path, good[path].data)
    village.sing()
    assert village.turn_failures() == failures, village.said()[-3000:]


def _stood(village: Canaries) -> dict[str, Znode]:
    found = village.session.get_many([path for _, path in KINDS])
    assert None not in found
    return {znode.path: znode for znode in found if znode is not None}


def _named(village: Canaries, spoiled: list[str]) -> None:
    """By ``status``, by ``record list`` and by ``record show``, where they are damaged indeed."""
    znodes = village.session.get_many(spoiled)
    damaged = {znode.path for znode in znodes if znode is not None and quarantine.problem(znode) is not None}
    assert len(damaged) > len(spoiled) // 3
    for words in (("status",), ("record", "list")):
        result = ask(village, *words)
        if damaged == {paths.CLUSTER} and words == ("status",):  # no command does anything
            assert (result.exit_code, paths.CLUSTER in result.output) == (1, True)
            continue
        assert result.exit_code == 0, result.output
        said = json.loads(result.stdout)
        rows = said["quarantined"] if words == ("status",) else said
        assert damaged <= {each["path"] for each in rows}, words
    for path in damaged:
        shown = ask(village, "record", "show", path)
        assert shown.exit_code == 0, shown.output
        assert json.loads(shown.stdout)["cannot_be_read"]


@pytest.mark.parametrize("path", [path for _, path in KINDS])
def test_a_damaged_record_of_each_kind_is_deleted_unless_others_rest_on_it(village: Canaries, path: str) -> None:
    session, before = village.session, [*_stood(village).values(), *subtree(village.session, path)]
    session._client.set(path, b"{oops")
    try:
        if path in ALONE:
            _named(village, [path])
        used = path not in (*HELD, paths.fence(NODE)) and path.startswith(USED) and "/provider/" not in path
        if used:
            refused = ask(village, "record", "delete", path, "--yes")
            assert (refused.exit_code, session.get(path) is not None) == (4, True), refused.output
            assert re.search("a daemon or command holds|works on", refused.output)
        for each in HELD if path not in HELD else ():
            session._client.delete(each)
        result = ask(village, "record", "delete", path, "--yes")
        if path in KEPT:
            assert (result.exit_code in (1, 4), session.get(path) is not None) == (True, True), result.output
            assert KEPT[path] in result.output
        else:
            assert (result.exit_code, session.get(path)) == (0, None), result.output
    finally:
        for znode in sorted(before, key=lambda each: each.path):
            if (there := session.get(znode.path)) is None:
                session._client.create(znode.path, znode.data, ephemeral=bool(znode.ephemeral_owner))
            elif there.data != znode.data:
                session._client.set(znode.path, znode.data)
    village.sing()


@pytest.mark.parametrize("path", [paths.rollouts(LAB), paths.task_runs(TASKS)])
def test_a_pointer_that_says_that_what_is_over_is_under_way_is_closed_once(village: Canaries, path: str) -> None:
    """An earlier version took it over again and again: hundreds of writes in ten seconds, and no verb mended it."""
    session = village.session
    znode = session.get(path)
    assert znode is not None
    pointer = json.loads(znode.data)
    for each in HELD:
        if each.startswith(path):
            session._client.delete(each)
    for driver in (pointer.get("driver"), "gone", None):
        session._client.set(path, json.dumps({**pointer, "over": False, "driver": driver}).encode())
        village.until(lambda: _over(village, path), "the pointer says that it is over")
    written = session.get(path)
    village.quiet(lines=6, writes=15)
    assert session.get(path) == written
    for each in HELD:
        if each.startswith(path):
            session.commit(
                [Create(each, LockOwner(daemon="b", host="h", pid=1, purpose="p", since=1.0), ephemeral=True)]
            )


def _over(village: Canaries, path: str) -> bool:
    znode = village.session.get(path)
    return znode is not None and json.loads(znode.data).get("over", True)
