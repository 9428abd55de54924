"""What a task is run with: its parameters, and the defaults of its kind."""

import pytest

from nodepool_ocb.tasks.parameters import completed
from nodepool_ocb.tasks.tasklist import Task, TaskKind


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (TaskKind.SHELL, {"cwd": "/", "timeout": 300, "retries": 2, "interval": 2}),
        (TaskKind.MASTER_SHELL, {"cwd": "/", "timeout": 300, "retries": 2, "interval": 2}),
        (TaskKind.PUPPET, {"cwd": "/", "timeout": 5400, "retries": 2}),
        (
            TaskKind.UPLOAD_FILE,
            {"permissions": "0644", "dir_permissions": "0755", "user": "root", "timeout": 60, "retries": 3},
        ),
        (TaskKind.SYNC, {"timeout": 300, "retries": 10}),
        (TaskKind.REBOOT, {"timeout": 900}),
    ],
)
def test_each_kind_has_its_defaults(kind: TaskKind, expected: dict[str, object]) -> None:
    assert expected.items() <= completed(Task(id="t", kind=kind)).items()


@pytest.mark.parametrize("kind", [TaskKind.GROUP, TaskKind.STAGE, TaskKind.SKIPPED])
def test_kinds_without_work_have_no_defaults(kind: TaskKind) -> None:
    assert completed(Task(id="t", kind=kind)) == {}


def test_parameters_of_a_task_override_the_defaults() -> None:
    task = Task(id="t", kind=TaskKind.SHELL, parameters={"cmd": "true", "timeout": 7})
    assert completed(task) == {"cwd": "/", "timeout": 7, "retries": 2, "interval": 2, "cmd": "true"}


def test_fuels_names_of_owners_become_ours() -> None:
    task = Task(id="t", kind=TaskKind.UPLOAD_FILE, parameters={"user_owner": "hiera", "group_owner": "adm"})
    found = completed(task)
    assert (found["user"], found["group"]) == ("hiera", "adm")
    assert "user_owner" not in found


def test_files_of_several_nodes_are_by_uid() -> None:
    file = {"dst": "/a", "data": "x"}
    listed = Task(
        id="t",
        kind=TaskKind.UPLOAD_FILES,
        parameters={"nodes": [{"uid": 1, "files": [file]}, {"uid": "1", "files": [file]}]},
    )
    mapped = Task(id="t", kind=TaskKind.UPLOAD_FILES, parameters={"nodes": {"1": [file, file]}})
    assert completed(listed)["nodes"] == completed(mapped)["nodes"] == {"1": [file, file]}
