"""A deployment's own list above its release's."""

from __future__ import annotations

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks import layers, reading
from nodepool_ocb.tasks.layers import TaskListLayer

RELEASE = """
- {id: hiera, type: shell, role: [x], requires: [start], parameters: {cmd: hiera}, fail_on_error: false}
- {id: netconfig, type: shell, role: [x], requires: [hiera], parameters: {cmd: netconfig}}
- {id: start, type: stage}
"""


def read(own: str, release: str = RELEASE) -> reading.CheckedTaskList:
    below = TaskListLayer(layers.named("9.0", {"net/tasks.yaml": release}), "release 9.0")
    return reading.read([below, TaskListLayer(layers.named("lab", {"tasks.yaml": own}), "deployment lab")])


def test_an_entry_replaces_the_whole_one_of_its_id_in_its_place_and_others_follow() -> None:
    tasks = read(
        "- {id: vlan, type: shell, role: [x], requires: [netconfig], parameters: {cmd: vlan}}\n"
        "- {id: hiera, type: shell, role: [y], parameters: {cmd: own}}\n"
    ).tasks
    assert [(task.id, task.origin, task.place) for task in tasks.tasks] == [
        ("hiera", "deployment lab", "lab/tasks.yaml:2"),
        ("netconfig", "release 9.0", "9.0/net/tasks.yaml:3"),
        ("start", "release 9.0", "9.0/net/tasks.yaml:4"),
        ("vlan", "deployment lab", "lab/tasks.yaml:1"),
    ]
    hiera = tasks.by_id["hiera"]
    assert (hiera.roles, hiera.requires, hiera.fail_on_error) == (("y",), (), True)


def test_an_empty_list_of_its_own_changes_nothing() -> None:
    assert read("").tasks.tasks == read("[]").tasks.tasks == read("# nothing\n").tasks.tasks
    assert len(read("").tasks.tasks) == 3


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        (
            "- {id: vlan, type: shell, role: [x], requires: [netcnfig], parameters: {cmd: a}}",
            'lab/tasks.yaml:1: vlan.requires[0]: must name a task of this list, and is "netcnfig"; did you mean `netconfig`?',
        ),
        (
            "- {id: hiera, type: shell, role: [x], requires: [netconfig], parameters: {cmd: a}}",
            "lab/tasks.yaml:1: hiera.requires[0]: must not make a task wait for itself, and does on nodes with role x:"
            " hiera (lab/tasks.yaml:1) -> netconfig (9.0/net/tasks.yaml:3) -> hiera; take one of these away",
        ),
    ],
)
def test_references_and_circles_are_those_of_both_lists_together(own: str, problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(own)
    assert list(caught.value.problems) == [problem]


def test_what_only_the_deployment_has_may_be_named_by_the_release() -> None:
    release = "- {id: a, type: shell, role: [x], requires: [site], parameters: {cmd: a}}"
    with pytest.raises(Invalid):
        reading.read_texts({"f": release})
    assert len(read("- {id: site, type: shell, role: [x], parameters: {cmd: b}}", release).tasks.tasks) == 2


def test_faults_of_both_are_said_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        read("- {id: b, type: shel}", "- {id: a, type: grup}")
    assert [problem.split(": ")[0] for problem in caught.value.problems] == ["9.0/net/tasks.yaml:1", "lab/tasks.yaml:1"]
