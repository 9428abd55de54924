"""Changes as people name them."""

from __future__ import annotations

import msgspec
import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import PendingCheck
from nodepool_ocb.model.images import Upload, UploadState
from nodepool_ocb.model.records import (
    Change,
    Check,
    Claim,
    Create,
    Delete,
    DeploymentRole,
    Fence,
    Gate,
    Node,
    NodeRole,
    Raise,
    Set,
    State,
    Structure,
)
from nodepool_ocb.store.world.paths import parse
from nodepool_ocb.views.changes import ChangesDocument, DetailedRow, rows
from nodepool_ocb.views.differences import FieldRow
from nodepool_ocb.views.times import shown
from nodepool_ocb.views.view import plain

TODO = NodeRole(state=State.TODO, since=1.0)
UPLOAD = Upload(state=UploadState.DELETE, state_time=1.0, format="raw")
NAMED: list[tuple[Change, tuple[str, str, str, str | None]]] = [
    (Set(paths.noderole("ntp", "n1.x"), TODO, 1), ("change", "noderole", "ntp@n1.x", "TODO")),
    (Create(paths.node("n1.x"), Node()), ("create", "node", "n1.x", None)),
    (Delete(paths.noderole("ntp", "n1.x"), 1), ("delete", "noderole", "ntp@n1.x", None)),
    (Create(paths.deployment_role("lab", "ntp"), DeploymentRole()), ("create", "deployment role", "ntp in lab", None)),
    (Set(paths.user("ntp", "n1.x"), {"a": 1}, 1), ("change", "attributes", "ntp@n1.x (user)", None)),
    (Set(paths.upload("jammy", "0000000007", "west", "0000000001"), UPLOAD, 1),
     ("change", "upload", "jammy-0000000007 west 0000000001", "delete")),
    (Delete(paths.pause("jammy"), 1), ("delete", "pause", "jammy", None)),
]  # fmt: skip
ORDERING: list[Change] = [
    Check(paths.node("n1.x"), 1),
    Check(paths.build("jammy", "0000000007"), 1),
    Raise(paths.gate("lab", "ntp"), Gate()),
    Create(paths.gate("lab", "ntp"), Gate()),
    Create(paths.fence("n1.x"), Fence()),
    Create(paths.claim("n1.x"), Claim(annealer="a", noderole="ntp@n1.x", run="r", epoch=1, since=1.0)),
    Create(paths.noderoles("n1.x")),
    Set(paths.STRUCTURE, Structure(), 1),
]


@pytest.mark.parametrize(("change", "named"), NAMED, ids=[" ".join(named[:3]) for _, named in NAMED])
def test_a_change_is_named_by_kind_and_name(change: Change, named: tuple[str, str, str, str | None]) -> None:
    (row,) = rows([change], parse)
    assert list(plain(row).items()) == list(zip(("change", "kind", "name", "state"), named, strict=True))


@pytest.mark.parametrize("change", ORDERING, ids=[f"{type(each).__name__} {each.path}" for each in ORDERING])
def test_what_only_keeps_order_is_not_shown(change: Change) -> None:
    assert rows([change], parse) == ()


def test_what_an_import_or_a_request_says_more_stands_behind_the_changes() -> None:
    plainly = ChangesDocument(dry_run=True, changes=(), explanations=("because",))
    assert plain(plainly) == {"dry_run": True, "changes": [], "explanations": ["because"]}
    imported = ChangesDocument(dry_run=False, changes=(), explanations=(), warnings=("w",), problems=())
    assert list(plain(imported)) == ["dry_run", "changes", "explanations", "warnings", "problems"]


def test_a_change_says_which_fields_it_changes_from_what_to_what() -> None:
    before = {(paths.node("n1.x"), 3): {"schema": 1, "tags": ["web"], "labels": {"a": "1"}, "later": True}}
    change = Set(paths.node("n1.x"), Node(rack="r1", labels={"a": "2"}, since=5.0, unknown={"later": True}), 3)
    (row,) = rows([change], parse, before)
    assert plain(row)["fields"] == [
        {"field": "labels/a", "old": "1", "new": "2"},
        {"field": "rack", "old": None, "new": "r1"},
        {"field": "tags", "old": ["web"], "new": []},
    ]
    (moved_on,) = rows([change], parse, {(paths.node("n1.x"), 2): {"schema": 1}})
    assert "fields" not in plain(moved_on), "what was there at another version says nothing"


def test_attributes_that_change_are_named_leaf_by_leaf_and_a_secret_is_never_shown() -> None:
    path = paths.user("ntp", "n1.x")
    old = {"ntp": {"servers": ["a"], "key": {"$secret": "enc:old"}}, "gone": 1}
    new = {"ntp": {"servers": ["a", "b"], "key": {"$secret": "enc:new"}}}
    (row,) = rows([Set(path, new, 0)], parse, {(path, 0): old})
    assert DetailedRow.of(row).fields == (
        'gone: 1 -> -; ntp/key: (secret) -> (secret); ntp/servers: ["a"] -> ["a", "b"]'
    )
    (made,) = rows([Create(path, {"key": {"$secret": "enc:new"}})], parse)
    assert DetailedRow.of(made).fields == "key: (secret)"


def test_a_kind_of_record_is_looked_at_once_for_a_thousand_changes_of_such(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, fields = list[object](), msgspec.structs.fields

    def counting(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
        looked.append(kind)
        return fields(kind)

    monkeypatch.setattr(msgspec.structs, "fields", counting)
    changes = [Set(paths.node(f"n{number}.x"), Node(rack="r2"), 1) for number in range(1000)]
    found = rows(changes, parse, {(change.path, 1): {"schema": 1, "rack": "r1"} for change in changes})
    assert looked in ([], [Node])
    assert all(row.fields and row.fields[0].words == "rack: r1 -> r2" for row in found)


def test_a_check_that_is_asked_for_is_told_without_how_it_is_kept() -> None:
    path, before = paths.noderole("ntp", "n1.x"), {"schema": 1, "state": "ACTIVE", "since": 1.0}
    checking = NodeRole.of(state=State.ACTIVE, since=1.0, refresh=True, check=PendingCheck(run="5", epoch=5))
    (row,) = rows([Set(path, checking, 1)], parse, {(path, 1): before})
    assert DetailedRow.of(row).fields == "check: - -> asked for"
    (row,) = rows([Set(path, NodeRole.of(state=State.ACTIVE, since=1.0, refresh=True), 1)], parse, {(path, 1): before})
    assert DetailedRow.of(row).fields == "refresh: false -> true", "it runs again, and is not checked"


def test_the_text_that_becomes_a_secret_or_was_one_is_not_told() -> None:
    path, kept = paths.user("db", "n1.x"), {"$secret": "env:PW"}
    for old, new in (("hunter2", kept), (kept, "hunter2")):
        (row,) = rows([Set(path, {"db": {"pw": new}}, 1)], parse, {(path, 1): {"db": {"pw": old}}})
        assert row.fields
        assert [each.words for each in row.fields] == ["db/pw: (secret) -> (secret)"]


def test_people_are_shown_the_time_of_a_state_and_programs_the_number() -> None:
    row = FieldRow(field="state_time", old=1795768727.59, new=1795768800.0)
    assert row.words == f"state_time: {shown(1795768727.59)} -> {shown(1795768800.0)}"
    assert plain(row) == {"field": "state_time", "old": 1795768727.59, "new": 1795768800.0}
