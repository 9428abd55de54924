"""``noderole causes``: errors of many nodes in few lines, each with the last change before them."""

from __future__ import annotations

from collections.abc import Callable

from nodepool_ocb.model.records import Json, State
from nodepool_ocb.store.client.session import Session
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]


def test_errors_of_many_nodes_are_one_cause_with_the_last_change_before_them(
    world: Session, ocb: Ocb, ask: Ask, becomes: Callable[..., None]
) -> None:
    ocb("node", "create", "web-{}.example.com", "--count", "3", "--deployment", "lab")
    ask("node", "bind", "-l", "name:web-*", "top")
    now = world.now()
    for number in (1, 2, 3):
        name = f"web-{number}.example.com"
        becomes(f"base@{name}", State.ERROR, since=now + 1000 + number, reason=f"connect: {name}: timed out")
    assert ocb("node", "create", "later.example.com").exit_code == 0
    becomes("middle@web-1.example.com", State.ERROR, since=now, reason="exit status 3")
    causes = ask("noderole", "causes")
    assert [(row["cause"], row["noderoles"], row["nodes"]) for row in causes] == [
        ("connect: NODE: timed out", 3, 3),
        ("exit status 3", 1, 1),
    ]
    assert [row["before"]["verb"] for row in causes] == ["node create", "node bind"]
    assert causes[0]["examples"] == [f"base@web-{number}.example.com" for number in (1, 2, 3)]
    table = ocb("noderole", "causes", "--deployment", "lab").output
    assert "connect: NODE: timed out" in table
    assert [row["cause"] for row in ask("noderole", "causes", "-l", "role:middle")] == ["exit status 3"]
    assert ask("noderole", "causes", "--deployment", "system") == []
    assert ocb("noderole", "causes", "--deployment", "lba").exit_code == 3
