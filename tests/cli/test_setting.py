"""Attributes that people set and unset, on noderoles and for deployments: what is written, what is refused, what is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import deployments
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, DeploymentState, Json, Set, State
from nodepool_ocb.operations import attributes
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
N1 = "n1.example.com"
DISK = f"disk@{N1}"
MIDDLE = f"middle@{N1}"

BARCLAMP = """\
barclamp: {name: disks, version: 1}
roles:
  - name: disk
    jig: noop
    attribs:
      - {name: level, map: disk/raid/level, default: 1, schema: {type: int}}
      - {name: spares, map: disk/raid/spares, default: [sdz]}
      - {name: whole, map: disk/layout, schema: {type: map, mapping: {size: {type: int, required: true}, "=": {type: any}}}}
"""


@pytest.fixture
def disk(world: Session, ocb: Ocb, tmp_path: Path) -> Session:
    """Role disk, with attributes at disk/raid/..., is bound to n1.example.com in deployment lab."""
    (tmp_path / "disks.yml").write_text(BARCLAMP)
    for line in (f"barclamp import {tmp_path / 'disks.yml'}", f"node bind {N1} disk"):
        assert ocb(*line.split()).exit_code == 0
    return world


def _user(ask: Ask, name: str) -> Json:
    return ask("noderole", "show", name)["attributes"]["user"]


def _of_deployment(ask: Ask, role: str, name: str = "lab") -> Json:
    return next(each["user"] for each in ask("deployment", "show", name)["roles"] if each["role"] == role)


# -- what schemas say --


@pytest.mark.usefixtures("disk")
@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ('disk/raid="text"', 'disk/raid: must be a mapping, and is text "text"; inside it: level, spares'),
        ("disk/raid=null", "must be a mapping"),
        ("disk/raid=[]", "must be a mapping"),
        ("level=9000.0", "must be a whole number or nothing, and is 9000.0"),
        ("level=true", "must be a whole number"),
        ('level="9000"', "must be a whole number"),
        ('disk/layout="text"', "must be a mapping"),
        ("disk/layout/name=1", "key `size` is missing"),
        ('disk/raid/spares/0="sda"', "disk/raid/spares is no mapping, and can only be set as a whole"),
        ("level=1e400", "too large a number"),
    ],
)
def test_a_value_past_the_schema_is_refused_wherever_it_is_written(
    ocb: Ocb, ask: Ask, assignment: str, said: str
) -> None:
    for line in (("noderole", "set", DISK), ("deployment", "set", "lab", "disk")):
        answer = ocb(*line, assignment)
        assert answer.exit_code == 1, answer.output
        assert said in answer.stderr
    assert _user(ask, DISK) == {}
    assert _of_deployment(ask, "disk") == {}


@pytest.mark.usefixtures("disk")
def test_large_numbers_and_parts_of_mappings_are_kept_as_they_are(ask: Ask) -> None:
    ask("noderole", "set", DISK, f"level={2**70}", 'own/name="r"', 'disk/layout={"size": 1}', "disk/layout/x=1")
    assert _user(ask, DISK) == {
        "disk": {"raid": {"level": 2**70}, "layout": {"size": 1, "x": 1}},
        "own": {"name": "r"},
    }


@pytest.mark.usefixtures("disk")
def test_a_value_of_another_type_is_another_value(ask: Ask) -> None:
    for value in (1, 1.0, True):
        ask("noderole", "set", DISK, f"own/name={str(value).lower()}")
        assert str(_user(ask, DISK)["own"]["name"]) == str(value)
        ask("deployment", "set", "lab", "disk", f"own/name={str(value).lower()}")
        assert str(_of_deployment(ask, "disk")["own"]["name"]) == str(value)


# -- unset --


@pytest.mark.usefixtures("disk")
def test_what_is_unset_falls_back_to_what_is_below_and_that_is_said(ask: Ask, ocb: Ocb) -> None:
    ask("deployment", "set", "lab", "disk", "level=5")
    ask("noderole", "set", DISK, "level=6", "own/name=1")
    answer = ocb("noderole", "unset", DISK, "level")
    assert answer.exit_code == 0, answer.output
    assert "disk/raid/level is 5 now, from deployment lab" in answer.stderr
    assert _user(ask, DISK) == {"own": {"name": 1}}
    answer = ocb("noderole", "unset", DISK, "own/name")
    assert "own/name is set nowhere now" in answer.stderr
    assert _user(ask, DISK) == {}
    answer = ocb("deployment", "unset", "lab", "disk", "disk/raid/level")
    assert "disk/raid/level is 1 now, by default of role disk" in answer.stderr
    assert _of_deployment(ask, "disk") == {}


@pytest.mark.usefixtures("disk")
def test_to_unset_what_is_not_set_is_an_error_that_says_what_is(ask: Ask, ocb: Ocb) -> None:
    ask("noderole", "set", DISK, "level=6")
    ask("deployment", "set", "lab", "disk", "level=5")
    for line in (("noderole", "unset", DISK), ("deployment", "unset", "lab", "disk")):
        for key, said in (
            ("spares", "disk/raid/spares is not set here; set here: disk/raid/level"),
            ("disk/raid/leve", "set here: disk/raid/level"),
            ("disk/raid/level/x", "is not set here"),
        ):
            answer = ocb(*line, "level", key)
            assert answer.exit_code == 3, answer.output
            assert said in answer.stderr
    assert _user(ask, DISK) == {"disk": {"raid": {"level": 6}}}, "one that is wrong leaves all as they were"
    answer = ocb("noderole", "unset", MIDDLE, "middle-size")
    assert "middle/size is not set here; set here: nothing" in answer.stderr


@pytest.mark.usefixtures("disk")
def test_unset_takes_the_same_path_once_and_mappings_whole(ask: Ask) -> None:
    ask("noderole", "set", DISK, "level=6", "own/name=1")
    ask("noderole", "unset", DISK, "level", "disk/raid", "own/name", "disk/raid/level")
    assert _user(ask, DISK) == {}


@pytest.mark.usefixtures("disk")
def test_unset_is_refused_where_what_is_left_breaks_a_schema_and_a_dry_run_writes_nothing(ask: Ask, ocb: Ocb) -> None:
    ask("noderole", "set", DISK, 'disk/layout={"size": 1, "x": 2}')
    answer = ocb("noderole", "unset", DISK, "disk/layout/size")
    assert (answer.exit_code, "key `size` is missing" in answer.stderr) == (1, True), answer.output
    ask("noderole", "unset", DISK, "disk/layout", "--dry-run", exit_code=10)
    assert _user(ask, DISK) == {"disk": {"layout": {"size": 1, "x": 2}}}


def test_what_was_set_past_a_schema_that_came_later_can_be_unset(disk: Session, ask: Ask) -> None:
    disk.commit([Create(paths.user("disk", N1), {"disk": {"raid": "text", "old": 1}, "gone": 1})])
    ask("noderole", "unset", DISK, "disk/old", "gone")
    assert _user(ask, DISK) == {"disk": {"raid": "text"}}
    ask("noderole", "unset", DISK, "disk/raid")
    assert _user(ask, DISK) == {}


def test_of_an_unset_and_a_set_at_once_neither_is_lost(
    disk: Session, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("noderole", "set", DISK, "level=6")
    real, once = attributes.unset, [True]

    def slowly(*arguments: Json) -> Json:
        if once:
            once.clear()
            znode = disk.get(paths.user("disk", N1))
            assert znode is not None
            disk.commit([Set(znode.path, {"disk": {"raid": {"level": 6, "theirs": 1}}}, znode.version)])
        return real(*arguments)

    monkeypatch.setattr(attributes, "unset", slowly)
    ask("noderole", "unset", DISK, "level")
    assert _user(ask, DISK) == {"disk": {"raid": {"theirs": 1}}}


# -- what is committed --


def test_what_is_committed_is_not_changed_and_the_ways_to_do_it_are_said(
    ask: Ask, ocb: Ocb, becomes: Callable[..., None]
) -> None:
    ask("noderole", "set", MIDDLE, "middle-size=2")
    ask("deployment", "commit", "lab")
    for state in set(State) - {State.PROPOSED}:
        becomes(MIDDLE, state)
        for line in (("set", MIDDLE, "middle-size=3"), ("unset", MIDDLE, "middle-size")):
            answer = ocb("noderole", *line)
            assert answer.exit_code == 4, answer.output
            assert f"{MIDDLE} is {state} in deployment lab, which is COMMITTED" in answer.stderr
            assert f"nodepool-ocb noderole propose {MIDDLE}" in answer.stderr
            assert "nodepool-ocb deployment propose lab" in answer.stderr
            assert (f"nodepool-ocb noderole wait {MIDDLE}" in answer.stderr) == (state is State.TRANSITION)
    assert _user(ask, MIDDLE) == {"middle": {"size": 2}}
    becomes(MIDDLE, State.ACTIVE)
    ask("noderole", "propose", MIDDLE)
    ask("noderole", "set", MIDDLE, "middle-size=3")
    becomes(MIDDLE, State.ACTIVE)
    ask("deployment", "propose", "lab")
    answer = ocb("noderole", "set", MIDDLE, "middle-size=4")
    assert answer.exit_code == 0, answer.output
    assert f"{MIDDLE} is ACTIVE" in answer.stderr
    assert "nodepool-ocb deployment commit lab" in answer.stderr
    assert _user(ask, MIDDLE) == {"middle": {"size": 4}}


@pytest.mark.usefixtures("disk")
def test_what_is_bound_into_a_committed_deployment_is_proposed_and_can_be_set(ask: Ask) -> None:
    ask("deployment", "commit", "lab")
    ask("node", "create", "n2.example.com", "--deployment", "lab")
    ask("node", "bind", "n2.example.com", "disk")
    ask("noderole", "set", "disk@n2.example.com", "level=2")
    assert _user(ask, "disk@n2.example.com") == {"disk": {"raid": {"level": 2}}}


def test_a_commit_between_the_judgement_and_the_write_refuses_the_write(
    disk: Session, ocb: Ocb, ask: Ask, becomes: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    becomes(MIDDLE, State.ACTIVE)
    real, once = deployments.changeable, [True]

    def slowly(*arguments: Json) -> Json:
        judged = real(*arguments)
        if once:
            once.clear()
            lab = load_world(disk).deployments["lab"]
            disk.commit(
                [Set(paths.deployment("lab"), replace(lab.record, state=DeploymentState.COMMITTED), lab.version)]
            )
        return judged

    monkeypatch.setattr(deployments, "changeable", slowly)
    answer = ocb("noderole", "set", MIDDLE, "middle-size=3")
    assert (answer.exit_code, "COMMITTED" in answer.stderr) == (4, True), answer.output
    assert _user(ask, MIDDLE) == {}


@pytest.mark.parametrize("verb", ["set", "unset"])
def test_a_commit_of_the_deployment_meanwhile_refuses_what_is_set_for_it(
    disk: Session, ocb: Ocb, ask: Ask, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    ask("deployment", "set", "lab", "disk", "level=2")
    name, once = {"set": "assigned", "unset": "unset"}[verb], [True]
    real = getattr(attributes, name)

    def slowly(*arguments: Json) -> Json:
        if once:
            once.clear()
            lab = load_world(disk).deployments["lab"]
            disk.commit(
                [Set(paths.deployment("lab"), replace(lab.record, state=DeploymentState.COMMITTED), lab.version)]
            )
        return real(*arguments)

    monkeypatch.setattr(attributes, name, slowly)
    answer = ocb("deployment", verb, "lab", "disk", "level=3" if verb == "set" else "level")
    assert (answer.exit_code, "COMMITTED" in answer.stderr) == (4, True), answer.output
    assert _of_deployment(ask, "disk") == {"disk": {"raid": {"level": 2}}}


@pytest.mark.usefixtures("disk")
def test_a_deployment_that_is_committed_is_not_changed_but_for_system_which_always_is(ask: Ask, ocb: Ocb) -> None:
    ask("deployment", "set", "lab", "disk", "level=2")
    ask("deployment", "commit", "lab")
    for line in (("set", "lab", "disk", "level=3"), ("unset", "lab", "disk", "level")):
        answer = ocb("deployment", *line)
        assert answer.exit_code == 4, answer.output
        assert "nodepool-ocb deployment propose lab" in answer.stderr
    assert _of_deployment(ask, "disk") == {"disk": {"raid": {"level": 2}}}
    answer = ocb("deployment", "set", "system", "disk", "level=3")
    assert answer.exit_code == 0, answer.output
    assert "deployment system is always COMMITTED: every run that begins from now on sees this" in answer.stderr
    assert _of_deployment(ask, "disk", "system") == {"disk": {"raid": {"level": 3}}}
