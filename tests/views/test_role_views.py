"""Roles as they are shown."""

from __future__ import annotations

from nodepool_ocb.catalogue.barclamp import Imported
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model.records import Role
from nodepool_ocb.views import roles
from nodepool_ocb.views.view import plain
from tests.views.small import small


def test_roles_are_chosen_by_all_their_flags_and_by_their_barclamp() -> None:
    world = small()
    world.put(Stored(Role(barclamp="b", jig="script", flags=("implicit", "bootstrap")), 0), "other")
    assert [row.name for row in roles.rows(world)] == ["base", "middle", "other", "top"]
    assert [row.name for row in roles.rows(world, ["implicit", "bootstrap"])] == ["other"]
    assert [row.name for row in roles.rows(world, ["implicit"], "chain")] == ["base", "middle", "top"]
    assert list(plain(roles.rows(world)[1]).items()) == [
        ("name", "middle"),
        ("barclamp", "chain"),
        ("jig", "noop"),
        ("flags", ["implicit"]),
        ("requires", ["base"]),
        ("description", None),
    ]


def test_roles_of_a_runs_tasks_are_shown_to_those_who_ask_for_them() -> None:
    world = small()
    world.put(Stored(Role(barclamp="b", jig="task-shell", flags=("task",)), 0), "lab.ntp")
    assert [row.name for row in roles.rows(world)] == ["base", "middle", "top"]
    assert [row.name for row in roles.rows(world, tasks=True)] == ["base", "lab.ntp", "middle", "top"]
    assert [row.name for row in roles.rows(world, ["task"])] == ["lab.ntp"]


def test_one_role_is_shown_as_it_was_imported_with_its_defaults() -> None:
    document = plain(roles.RoleDocument("base", Role(barclamp="chain", jig="noop")))
    assert list(document)[:3] == ["name", "barclamp", "jig"]
    assert (document["retries"], document["timeout_seconds"], document["script"]) == (0, 1800.0, None)


def test_a_check_tells_roles_warnings_and_problems_in_the_order_of_the_documents() -> None:
    found = Imported({"b": Role(barclamp="x", jig="noop"), "a": Role(barclamp="x", jig="noop")}, ("w",), ("p",))
    assert plain(roles.checked(found)) == {
        "roles": [{"name": name, "barclamp": "x", "jig": "noop", "flags": []} for name in ("b", "a")],
        "warnings": ["w"],
        "problems": ["p"],
    }
