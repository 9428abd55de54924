"""Changes as people name them."""

from __future__ import annotations

import pytest

from nodepool_ocb.model import paths
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
from nodepool_ocb.store.worldpaths import parse
from nodepool_ocb.views.changes import ChangesDocument, rows
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
