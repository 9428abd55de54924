"""Real task lists: what Fuel released is read, or refused with the very slips that it has."""

from __future__ import annotations

import re

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks import reading
from nodepool_ocb.tasks.tasklist import TaskKind
from tests.fixtures.corpora import CORPORA, needs

FUEL = CORPORA / "fuel"

#: Release → (file below it, what is said) of each slip.
SLIPS = {
    "7.0": [],
    "9.0": [
        (
            "deployment/puppet/openstack_tasks/examples/openstack-network/tasks.yaml:38",
            '"(primary-)?rabbitmq" looks like a pattern; a pattern stands between slashes: "/(primary-)?rabbitmq/"',
        )
    ],
}


@needs("fuel")
@pytest.mark.parametrize("release", SLIPS)
def test_a_release_is_refused_with_exactly_its_slips(release: str) -> None:
    found: list[str] = []
    try:
        reading.read_files([FUEL / release])
    except Invalid as invalid:
        found = [problem.removeprefix(f"{FUEL / release}/") for problem in invalid.problems]
    assert [(problem.split(": ")[0], problem.split(": ", 2)[2]) for problem in found] == SLIPS[release]


@needs("fuel")
@pytest.mark.parametrize(("release", "count", "warned"), [("7.0", 131, 2), ("9.0", 191, 1)])
def test_a_release_is_read_leniently_as_fuel_read_it(release: str, count: int, warned: int) -> None:
    found = reading.read_files([FUEL / release], lenient=True)
    assert len(found.tasks.tasks) == count
    assert len(found.warnings) == warned


@needs("fuel")
def test_the_deployment_of_release_9_2_is_read_leniently_with_its_computed_relations() -> None:
    """Of its other graphs the tasks belong to the provisioner."""
    found = reading.read_files([FUEL / "9.2" / "deployment"], lenient=True).tasks
    said = {task.id: (len(task.computed_depends), len(task.computed_depended_by)) for task in found.tasks}
    computed = {name: counts for name, counts in said.items() if any(counts)}
    assert computed == {"cluster": (1, 0), "netconfig": (1, 0), "hiera_default_route": (1, 1)}


@needs("fuel")
def test_a_release_without_its_slip_is_read() -> None:
    texts = dict(reading.files(FUEL / "9.0").texts)
    mended = {
        name: text.replace("name: (primary-)?rabbitmq", "name: /(primary-)?rabbitmq/") for name, text in texts.items()
    }
    found = reading.read_texts(mended)
    assert found.warnings == ()
    relations = found.tasks.by_id["openstack-network-start"].cross_depends
    assert "/(primary-)?rabbitmq/" in {relation.name for relation in relations}


@needs("fuel")
@pytest.mark.parametrize("release", SLIPS)
def test_every_key_of_a_release_reaches_a_task(release: str) -> None:
    tasks = reading.read_files([FUEL / release], lenient=True).tasks
    text = "\n".join(reading.files(FUEL / release).texts.values())
    written = re.findall(r"^- id: (\S+)", text, re.MULTILINE)
    assert [task.id for task in tasks.tasks] == written
    assert sum(1 for task in tasks.tasks if task.condition is not True) == len(
        re.findall(r"^  condition:", text, re.MULTILINE)
    )
    assert sum(1 for task in tasks.tasks if task.cross_depends) == len(
        re.findall(r"^  cross-depends:", text, re.MULTILINE)
    )
    assert sum(1 for task in tasks.tasks if task.requires) <= len(re.findall(r"^  requires:", text, re.MULTILINE))
    assert all(task.roles for task in tasks.tasks if task.kind is not TaskKind.STAGE)
