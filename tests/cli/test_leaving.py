"""Roles leave deployments and the catalogue, once nothing needs them; a refusal names what does, and the next command."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.hooks import deployment as deploymentroles
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, DeploymentRole, Json, Role, Set
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
N1 = "n1.example.com"
LAB = ("deployment", "unset", "lab")


def roles(session: Session) -> list[str]:
    return sorted(load_world(session).roles)


def in_lab(session: Session) -> list[str]:
    return sorted(role for deployment, role in load_world(session).deployment_roles if deployment == "lab")


@pytest.fixture
def spare(world: Session, ocb: Ocb) -> Session:
    """Role spare is in deployment lab with an attribute, and bound nowhere."""
    world.commit([Create(paths.role("spare"), Role(barclamp="spares", jig="noop"))])
    assert ocb("deployment", "set", "lab", "spare", "a/b=1").exit_code == 0
    return world


def test_a_role_leaves_a_deployment_with_its_attributes(spare: Session, ocb: Ocb, ask: Ask) -> None:
    assert "spare" in in_lab(spare)
    assert ocb(*LAB, "spare").exit_code == 2, "it asks, and there is no terminal"
    assert ask(*LAB, "spare", "--dry-run", exit_code=10)["changes"][0]["change"] == "delete"
    assert "spare" in in_lab(spare)
    assert ocb(*LAB, "spare", "--yes").exit_code == 0
    assert "spare" not in in_lab(spare)
    again = ocb(*LAB, "spare", "--yes")
    assert (again.exit_code, "role spare is not in deployment lab" in again.stderr) == (3, True)


def test_a_role_that_is_bound_in_a_deployment_does_not_leave_it(world: Session, ocb: Ocb) -> None:
    result = ocb(*LAB, "top", "--yes")
    assert result.exit_code == 4
    assert (
        f"role top is bound in deployment lab: top@{N1}; first: nodepool-ocb noderole unbind top@{N1}" in result.stderr
    )
    assert "top" in in_lab(world)


def test_a_role_with_a_hook_for_it_leaves_when_that_agreed_or_by_force(spare: Session, ocb: Ocb) -> None:
    stored = load_world(spare).roles["spare"]
    hooked = replace(stored.record, hooks=("on_deployment_delete",))
    spare.commit([Set(paths.role("spare"), hooked, stored.version)])
    result = ocb(*LAB, "spare", "--yes")
    assert (result.exit_code, "an annealer runs on_deployment_delete first" in result.stderr) == (0, True)
    record = load_world(spare).deployment_roles["lab", "spare"].record
    assert (record.deleting, record.hooks) == (True, ("on_deployment_delete",))
    for command in (
        ("deployment", "set", "lab", "spare", "a/b=2"),
        ("node", "bind", N1, "spare", "--deployment", "lab"),
    ):
        refused = ocb(*command)
        assert (refused.exit_code, "role spare is leaving deployment lab" in refused.stderr) == (4, True), (
            refused.stderr
        )
    assert ocb(*LAB, "spare", "--yes", "--force").exit_code == 0
    assert "spare" not in in_lab(spare)


def test_a_deployment_that_a_role_refuses_is_not_committed_until_the_role_is_asked_again(
    spare: Session, ocb: Ocb, ask: Ask
) -> None:
    stored = load_world(spare).deployment_roles["lab", "spare"]
    refused = deploymentroles.refused(stored.record, "on_deployment_create", "ValueError: no zone")
    spare.commit([Set(paths.deployment_role("lab", "spare"), refused, stored.version)])
    result = ocb("deployment", "commit", "lab")
    assert result.exit_code == 4
    assert (
        "role spare refuses deployment lab: ValueError: no zone; mend it, then: nodepool-ocb deployment set"
        in result.stderr
    )
    shown = {each["role"]: each["refused"] for each in ask("deployment", "show", "lab")["roles"]}
    assert shown["spare"] == {"on_deployment_create": "ValueError: no zone"}
    assert "no zone" in ocb("deployment", "show", "lab").stdout
    assert ocb("deployment", "set", "lab", "spare", "a/b=1").exit_code == 0, "the same value asks again, too"
    record = load_world(spare).deployment_roles["lab", "spare"].record
    assert record == DeploymentRole(user={"a": {"b": 1}}, hooks=("on_deployment_create",))
    assert ocb("deployment", "commit", "lab").exit_code == 0


def test_a_role_that_agreed_is_asked_again_when_its_attributes_change(spare: Session, ocb: Ocb) -> None:
    stored = load_world(spare).roles["spare"]
    spare.commit([Set(paths.role("spare"), replace(stored.record, hooks=("on_deployment_create",)), stored.version)])
    assert ocb("deployment", "set", "lab", "spare", "a/b=1").exit_code == 0
    assert load_world(spare).deployment_roles["lab", "spare"].record.hooks == (), "nothing changed"
    for value in ("2", "3"):
        assert ocb("deployment", "set", "lab", "spare", f"a/b={value}").exit_code == 0
        assert load_world(spare).deployment_roles["lab", "spare"].record.hooks == ("on_deployment_create",)


def test_a_role_is_deleted_when_nothing_needs_it(spare: Session, ocb: Ocb) -> None:
    spare.commit([Create(paths.role("needing"), Role(barclamp="other", jig="noop", requires=("spare",)))])
    for needs, said, end in (
        ("base", f"noderoles are bound: base@{N1}; first: nodepool-ocb noderole unbind base@{N1}", None),
        ("spare", "in deployments: spare in lab; first: nodepool-ocb deployment unset lab spare", (*LAB, "spare", "--yes")),
        ("spare", "required: spare by needing; first: nodepool-ocb role delete needing", ("role", "delete", "needing", "--yes")),
    ):  # fmt: skip
        result = ocb("role", "delete", needs, "--yes")
        assert (result.exit_code, said in result.stderr) == (4, True), result.stderr
        assert end is None or ocb(*end).exit_code == 0
    assert ocb("role", "delete", "spare").exit_code == 2, "it asks, and there is no terminal"
    assert ocb("role", "delete", "spare", "--yes").exit_code == 0
    assert roles(spare) == ["base", "middle", "other", "top"]
    assert ocb("role", "delete", "spare", "--yes").exit_code == 3


def test_the_roles_of_a_barclamp_are_deleted_at_once(spare: Session, ocb: Ocb) -> None:
    spare.commit([Create(paths.role("needing"), Role(barclamp="spares", jig="noop", requires=("spare",)))])
    refused = ocb("barclamp", "delete", "spares", "--yes")
    assert (refused.exit_code, "in deployments: spare in lab" in refused.stderr) == (4, True)
    assert ocb(*LAB, "spare", "--yes").exit_code == 0
    assert ocb("barclamp", "delete", "spares", "--yes").exit_code == 0
    assert roles(spare) == ["base", "middle", "other", "top"]
    assert ocb("barclamp", "delete", "spares", "--yes").exit_code == 3
