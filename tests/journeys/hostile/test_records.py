"""Every kind of znode, spoiled in every way, under two annealers: the canaries go on, and people are told of it.

The default form takes a sample by chance, of a seed that is printed with its failure; the long form takes all.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from nodepool_ocb.cli.main import cli
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Cluster,
    Create,
    Deployment,
    Node,
    NodeRole,
    Role,
    RolloutPointer,
    State,
)
from nodepool_ocb.store import quarantine
from tests.journeys.hostile import spoiling
from tests.journeys.hostile.canaries import Canaries
from tests.journeys.hostile.village import KINDS

SEED: Final = 20
SAMPLE: Final = 40
MANY: Final = 25  # cases between two looks at the annealers' memory


def cases() -> list[tuple[str, str, spoiling.Spoil]]:
    """Path, name of the spoiling, and what it does."""
    return [
        (path, name, spoil)
        for kind, path in KINDS
        if kind is not Cluster  # with another id every daemon ends, as it is to
        for name, spoil in spoiling.every(spoiling.fields(kind) if kind is not None else ())
    ]


def test_there_are_a_thousand_cases_and_more() -> None:
    assert len(cases()) >= 1000


def spoiled_each(canaries: Canaries, chosen: list[tuple[str, str, spoiling.Spoil]]) -> None:
    """One after the other: spoiled, the canaries sing, people are told, mended."""
    failures = canaries.turn_failures()
    for number, (path, name, spoil) in enumerate(chosen, 1):
        znode = canaries.session.get(path)
        assert znode is not None, path
        canaries.session._client.set(path, spoil(znode.data))
        try:
            canaries.sing()
            _reported(canaries, path)
        except AssertionError as missed:
            raise AssertionError(f"{path}: {name}: {missed}") from missed
        finally:
            _mend(canaries, path, znode.data)
        assert canaries.turn_failures() == failures, f"{path}: {name}: a turn has raised\n{canaries.said()[-3000:]}"
        if number % MANY == 0 or number == len(chosen):
            canaries.level()


def _mend(canaries: Canaries, path: str, good: bytes) -> None:
    """Write it as it was."""
    client = canaries.session._client
    if client.exists(path):
        client.set(path, good)
    else:
        client.create(path, good)


def _reported(canaries: Canaries, path: str) -> None:
    """``status`` ends well, and names the record where it cannot be read; so does ``record show``."""
    znode = canaries.session.get(path)
    if znode is None:
        return  # it said of itself that it is to be deleted
    problem = quarantine.problem(znode)
    status = ask(canaries, "status")
    assert status.exit_code == 0, status.output
    named = {each["path"] for each in json.loads(status.stdout)["quarantined"]}
    assert problem is None or path in named, f"{path} is not named, though: {problem}"
    shown = ask(canaries, "record", "show", path)
    assert shown.exit_code == 0, shown.output
    assert (json.loads(shown.stdout)["cannot_be_read"] is None) is (problem is None)
    assert not any(letter in shown.output for letter in "\x1b\x07\x9b\u202e")


def ask(canaries: Canaries, *words: str) -> Result:
    """A command, in this process."""
    hosts = canaries.zookeeper.hosts
    return CliRunner().invoke(cli, ["--zookeeper", hosts, "-o", "json", *words], catch_exceptions=True)


@pytest.mark.long
def test_records_of_every_kind_that_are_spoiled_stop_nothing_else(village: Canaries) -> None:
    spoiled_each(village, random.Random(SEED).sample(cases(), SAMPLE))


@pytest.mark.long
def test_every_record_spoiled_in_every_way_stops_nothing_else(village: Canaries) -> None:
    spoiled_each(village, random.Random(SEED).sample(cases(), len(cases())))


def _odd() -> Iterator[tuple[str, Any]]:
    """What lies there all at once: names that can be none, circles, what names itself or nothing."""
    now = time.time()
    bound = NodeRole(state=State.TODO, since=now, generation=1)
    for name in spoiling.NAMES:
        yield paths.noderole(name, "odd.example.com"), bound
        yield paths.role(name), Role(barclamp="odd", jig="test")
        yield paths.deployment(name), Deployment()
        yield paths.node(name), Node(virtual=True, alive=True)
        yield paths.rollouts(name), RolloutPointer(newest="0000000000", over=False)
    for name, parent in {"a": "b", "b": "a", "self": "self", "dangling": "nowhere"}.items():
        yield paths.deployment(f"odd-{name}"), Deployment(parent=f"odd-{parent}")
    circles = {"ra": "rb@", "rb": "ra@", "rs": "rs@", "rd": "nowhere@", "rc": "rc@*", "rn": ""}
    for role, parent in circles.items():
        fqdn, above = "circle.example.com", (parent + "circle.example.com",)
        yield paths.role(role), Role(barclamp="odd", jig="test", requires=(role, "nowhere"), provides=(role,))
        yield paths.noderole(role, fqdn), NodeRole.of(state=State.TODO, since=now, parents=above, serves=(role,))


def test_names_that_are_none_and_circles_are_left_alone_and_nothing_is_tried_again_and_again(
    canaries: Canaries,
) -> None:
    failures = canaries.turn_failures()
    canaries.session.ensure(paths.ROLLOUTS)
    for fqdn in ("odd.example.com", "circle.example.com"):
        canaries.add_node(fqdn, Node(virtual=True, alive=True))
    odd = list(_odd())
    for path, record in odd:
        canaries.session.commit([Create(path, record)])
    canaries.sing()
    canaries.quiet(lines=3, writes=12)
    named = {each["path"] for each in json.loads(ask(canaries, "status").stdout)["quarantined"]}
    assert {path for path, _ in odd if path.rpartition("/")[2] in spoiling.NAMES} <= named
    for deployment in ("odd-a", "odd-self", "odd-dangling"):
        assert ask(canaries, "deployment", "show", deployment).exit_code == 0
    assert ask(canaries, "noderole", "explain", "ra@circle.example.com").exit_code == 0
    assert ask(canaries, "graph").exit_code == 0
    for path, _ in odd:
        canaries.session._client.delete(path, recursive=True)
    canaries.level()
    assert canaries.turn_failures() == failures, canaries.said()[-3000:]
