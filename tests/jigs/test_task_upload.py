"""Jigs task-upload and task-copy on a real machine: what is put where, and every way out of a place that is closed."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb import jigs
from nodepool_ocb.config import Settings, TasksSettings
from nodepool_ocb.documents import files
from nodepool_ocb.jigs import Failed, Succeeded, Unknown
from nodepool_ocb.jigs.tasks import copy
from nodepool_ocb.jigs.tasks.copy import CopyJig
from nodepool_ocb.jigs.tasks.files import FileParameters, script
from nodepool_ocb.jigs.tasks.upload import UploadJig
from tests.jigs.workshop import Annealer, Machine

ME = pwd.getpwuid(os.getuid()).pw_name
NOBODY = pwd.getpwnam("nobody")
LIBRARY = Path(jigs.__file__).parent / "ssh" / "library.sh"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")


@pytest.fixture
def upload(machine: Machine) -> Iterator[Annealer]:
    one = Annealer(machine.settings(), UploadJig)
    yield one
    one.jig.close()


@pytest.fixture
def copier(machine: Machine) -> Iterator[Annealer]:
    one = Annealer(machine.settings(), CopyJig)
    yield one
    one.jig.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where files go; nothing half done is in it or below at the end."""
    folder = tmp_path / "place"
    folder.mkdir()
    yield folder
    assert not list(folder.rglob(".ocb-*"))


def file(path: Path, data: str = "new\n", **more: Any) -> dict[str, Any]:
    return {"path": str(path), "data": data, "user": ME, "group": ME} | more


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.lstat().st_mode):04o}"


# -- what is there afterwards --


@pytest.mark.parametrize(
    "data", ["", "no newline", "line\n", "caf\u00e9 \x01\r\n\t'$x`\\", "end of this file\n", "x" * 300_000], ids=len
)
def test_the_text_arrives_as_it_is(machine: Any, upload: Any, place: Path, data: str) -> None:
    outcome = upload.run(machine.task(file(place / "it's", data)))
    assert isinstance(outcome, Succeeded)
    assert outcome.tail == f"wrote {place}/it's\n"
    assert (place / "it's").read_bytes() == data.encode()


def test_a_file_has_fuels_permissions_unless_the_task_says_others(machine: Any, upload: Any, place: Path) -> None:
    upload.run(machine.task(file(place / "a" / "b" / "plain")))
    assert [mode(place / "a"), mode(place / "a" / "b" / "plain")] == ["0755", "0644"]
    special = file(place / "c" / "own", permissions="4750", dir_permissions=700)
    assert isinstance(upload.run(machine.task(special, epoch=2, generation=2)), Succeeded)
    assert [mode(place / "c"), mode(place / "c" / "own")] == ["0700", "4750"]


@as_root
def test_a_file_belongs_to_whom_the_task_says(machine: Any, upload: Any, place: Path) -> None:
    outcome = upload.run(machine.task(file(place / "f", user="nobody", group="nogroup", permissions="0600")))
    assert isinstance(outcome, Succeeded)
    found = (place / "f").stat()
    assert (found.st_uid, found.st_gid, mode(place / "f")) == (NOBODY.pw_uid, NOBODY.pw_gid, "0600")


def test_a_user_whom_the_machine_does_not_know_fails_it_and_leaves_what_is_there(
    machine: Any, upload: Any, place: Path
) -> None:
    (place / "f").write_text("old")
    outcome = upload.run(machine.task(file(place / "f", user="no-such-user")))
    assert outcome.reason == f"{place}/f cannot belong to no-such-user:{ME}"
    assert (place / "f").read_text() == "old"


def test_what_is_there_is_replaced_as_a_whole_and_readers_keep_what_they_opened(
    machine: Any, upload: Any, place: Path
) -> None:
    (place / "f").write_text("old")
    with (place / "f").open() as reader:
        assert isinstance(upload.run(machine.task(file(place / "f"))), Succeeded)
        assert reader.read() == "old"
    assert (place / "f").read_text() == "new\n"


def test_without_overwrite_what_is_there_stays(machine: Any, upload: Any, place: Path) -> None:
    (place / "f").write_text("old")
    (place / "dangling").symlink_to("/no/such")
    for epoch, name in enumerate(("f", "dangling", "g"), 1):
        order = machine.task(file(place / name, overwrite=False), epoch=epoch, generation=epoch)
        assert isinstance(upload.run(order), Succeeded)
    assert (place / "f").read_text() == "old"
    assert (place / "dangling").is_symlink()
    assert (place / "g").read_text() == "new\n"


def test_without_parents_a_missing_directory_is_refused(machine: Any, upload: Any, place: Path) -> None:
    outcome = upload.run(machine.task(file(place / "a" / "f", parents=False)))
    assert outcome.reason == f"there is no directory {place}/a, and parents is false"
    assert not (place / "a").exists()


def test_what_differs_on_the_node_is_what_is_written(machine: Any, upload: Any, place: Path) -> None:
    assert isinstance(upload.run(machine.task(file(place / "f"), differing={"data": "own"})), Succeeded)
    assert (place / "f").read_text() == "own"


# -- where it must not go --


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("relative", "does not begin with /"),
        ("{}/../f", "has .. in it"),
        ("{}/..", "has .. in it"),
        ("{}/f/", "names a directory"),
        ("{}/f\0", "zero byte"),
    ],
)
def test_a_path_that_is_none_is_refused_before_anything_runs(
    machine: Any, upload: Any, place: Path, path: str, reason: str
) -> None:
    outcome = upload.run(machine.task(file(place) | {"path": path.format(place)}))
    assert isinstance(outcome, Failed)
    assert reason in outcome.reason
    assert machine.events() == []


@pytest.mark.parametrize(
    "wrong", [{"permissions": "9"}, {"permissions": "rw"}, {"user": "-R"}, {"group": "a:b"}], ids=str
)
def test_modes_and_names_that_are_none_are_refused(machine: Any, upload: Any, place: Path, wrong: Any) -> None:
    assert isinstance(upload.run(machine.task(file(place / "f", **wrong))), Failed)
    assert machine.events() == []


@as_root
@pytest.mark.parametrize("target", ["inside", "/"], ids=["relative", "absolute"])
def test_a_link_of_another_user_on_the_way_is_not_followed(machine: Any, upload: Any, place: Path, target: str) -> None:
    inside = place / "inside"
    inside.mkdir()
    (place / "link").symlink_to(target if target == "inside" else inside)
    os.chown(place / "link", NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
    outcome = upload.run(machine.task(file(place / "link" / "f")))
    assert isinstance(outcome, Failed)
    assert outcome.reason == f"{place}/link is a link that belongs to user {NOBODY.pw_uid}; it is not followed"
    assert not list(inside.iterdir())


@as_root
def test_a_link_of_another_user_behind_a_link_of_ours_is_not_followed(machine: Any, upload: Any, place: Path) -> None:
    (place / "inside").mkdir()
    (place / "theirs").symlink_to("inside")
    os.chown(place / "theirs", NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
    (place / "ours").symlink_to("theirs")
    outcome = upload.run(machine.task(file(place / "ours" / "f")))
    assert isinstance(outcome, Failed)
    assert "theirs is a link that belongs to" in outcome.reason
    assert not list((place / "inside").iterdir())


@pytest.mark.parametrize("target", ["inside", "./away/../inside/", "{}/inside"])
def test_a_link_of_ours_on_the_way_is_followed(machine: Any, upload: Any, place: Path, target: str) -> None:
    (place / "inside").mkdir()
    (place / "away").mkdir()
    (place / "link").symlink_to(target.format(place))
    assert isinstance(upload.run(machine.task(file(place / "link" / "new" / "f"))), Succeeded)
    assert (place / "inside" / "new" / "f").read_text() == "new\n"


def test_a_directory_that_is_replaced_by_a_link_while_it_is_entered_leads_nowhere(tmp_path: Path) -> None:
    """A user who may change the directory swaps it when the script has looked at it; here a program stat does."""
    tmp_path.chmod(0o777)
    (tmp_path / "mine").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "bin").mkdir()
    swap = f"cd {tmp_path}; [ -h mine ] || {{ mv mine old; ln -s theirs mine; }}"
    fake = (
        f'#!/bin/sh\ncase "$(pwd) $*" in "{tmp_path} -c %d:%i .") ({swap}) ;; esac\nexec {shutil.which("stat")} "$@"\n'
    )
    (tmp_path / "bin" / "stat").write_text(fake)
    (tmp_path / "bin" / "stat").chmod(0o755)
    made = FileParameters(
        permissions="0644", dir_permissions="0755", user=ME, group=ME, overwrite=True, parents=True
    ).file(str(tmp_path / "mine" / "f"), b"new\n")  # fmt: skip
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    environment = {"PATH": path, "OCB_LIBRARY": str(LIBRARY)}
    ended = subprocess.run(["sh"], input=script([made], False).encode(), capture_output=True, env=environment)
    assert (tmp_path / "mine").is_symlink()
    assert not list((tmp_path / "theirs").iterdir())
    assert (ended.returncode, ended.stdout.decode()) == (
        1, f"task: {tmp_path}/mine was replaced while it was entered\n",
    )  # fmt: skip


def test_links_in_a_circle_are_refused(machine: Any, upload: Any, place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    outcome = upload.run(machine.task(file(place / "a" / "f")))
    assert isinstance(outcome, Failed)
    assert outcome.reason.endswith("too many links")


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_link_in_the_place_of_the_file_is_replaced_and_what_it_leads_to_is_left_alone(
    machine: Any, upload: Any, place: Path, kind: str
) -> None:
    other = place / "other"
    other.mkdir() if kind == "directory" else other.write_text("old")
    (place / "f").symlink_to(other)
    assert isinstance(upload.run(machine.task(file(place / "f"))), Succeeded)
    assert not (place / "f").is_symlink()
    assert (place / "f").read_text() == "new\n"
    assert list(other.iterdir()) == [] if kind == "directory" else other.read_text() == "old"


@pytest.mark.parametrize(
    ("path", "reason"), [("d", "is a directory"), ("f/x", "f is no directory"), ("pipe/x", "pipe is no directory")]
)
def test_something_else_in_the_place_of_a_file_or_directory_is_an_error(
    machine: Any, upload: Any, place: Path, path: str, reason: str
) -> None:
    (place / "d").mkdir()
    (place / "f").touch()
    os.mkfifo(place / "pipe")
    outcome = upload.run(machine.task(file(place / path)))
    assert isinstance(outcome, Failed)
    assert outcome.reason.endswith(reason)


def test_a_pipe_in_the_place_of_the_file_is_replaced_and_nobody_waits(machine: Any, upload: Any, place: Path) -> None:
    os.mkfifo(place / "f")
    assert isinstance(upload.run(machine.task(file(place / "f"))), Succeeded)
    assert (place / "f").read_text() == "new\n"


def test_a_place_that_cannot_be_written_is_the_reason(machine: Any, upload: Any) -> None:
    outcome = upload.run(machine.task(file(Path("/proc/sys/f"))))
    assert outcome.reason == "cannot write in the directory of /proc/sys/f"


# -- several files --


def entry(path: Path, data: str, **more: Any) -> dict[str, Any]:
    return {"dst": str(path), "data": data} | more


def test_a_node_gets_the_files_of_its_own_uid_alone(machine: Any, upload: Any, place: Path) -> None:
    own = [entry(place / "a", "A", permissions="0600"), entry(place / "b" / "c", "C")]
    others = [entry(place / "other", "X")]
    outcome = upload.run(machine.task({"nodes": {"7": own, "8": others}, "user": ME, "group": ME}, uid="7"))
    assert isinstance(outcome, Succeeded)
    assert (place / "a").read_text() + (place / "b" / "c").read_text() == "AC"
    assert [mode(place / "a"), mode(place / "b" / "c")] == ["0600", "0644"]
    assert not (place / "other").exists()


def test_a_node_without_files_has_nothing_to_do(machine: Any, upload: Any, place: Path) -> None:
    outcome = upload.run(machine.task({"nodes": {"8": [entry(place / "other", "X")]}}, uid="7"))
    assert isinstance(outcome, Succeeded)
    assert outcome.tail == "there is no file for this node\n"


def test_a_wrong_entry_of_another_node_is_no_fault_of_this_one(machine: Any, upload: Any) -> None:
    nodes = {"7": [], "8": ["nonsense"]}
    assert isinstance(upload.run(machine.task({"nodes": nodes}, uid="7")), Succeeded)
    outcome = upload.run(machine.task({"nodes": nodes}, uid="8", epoch=2, generation=2))
    assert isinstance(outcome, Failed)
    assert "the files of node 8" in outcome.reason


def test_a_noop_run_says_what_it_would_write_and_writes_nothing(machine: Any, upload: Any, place: Path) -> None:
    outcome = upload.run(machine.task(file(place / "a" / "f", "secret"), noop=True))
    assert outcome.tail == f"would write 6 bytes to {place}/a/f, permissions 0644, owner {ME}:{ME}\n"
    assert not list(place.iterdir())


# -- files of this host --


def copied(src: Path, dst: Path, **more: Any) -> dict[str, Any]:
    return {"files": [{"src": str(src), "dst": str(dst)}], "user": ME, "group": ME} | more


def test_files_of_this_host_arrive_byte_by_byte(machine: Any, copier: Any, place: Path, tmp_path: Path) -> None:
    (tmp_path / "src").write_bytes(bytes(range(256)) * 4000)
    order = machine.task(copied(tmp_path / "src", place / "keys" / "dst", permissions="0600", dir_permissions="0700"))
    assert isinstance(copier.run(order), Succeeded)
    assert (place / "keys" / "dst").read_bytes() == bytes(range(256)) * 4000
    assert [mode(place / "keys"), mode(place / "keys" / "dst")] == ["0700", "0600"]


@pytest.mark.parametrize("missing", ["absent", "directory", "pipe", "relative"])
def test_a_file_that_is_not_there_on_this_host_fails_the_task(
    machine: Any, copier: Any, place: Path, tmp_path: Path, missing: str
) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    src = Path("etc/hosts") if missing == "relative" else tmp_path / missing
    outcome = copier.run(machine.task(copied(src, place / "dst")))
    assert isinstance(outcome, Failed)
    assert f"src {src}" in outcome.reason
    assert machine.events() == []


def test_a_file_outside_the_sources_is_refused_before_the_machine_is_asked(
    machine: Any, place: Path, tmp_path: Path
) -> None:
    """The annealer's own key opens every machine; an author of a task list must not get it."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "link").symlink_to(machine.settings().key_files[0])
    for sources, src in (((), "/etc/hostname"), ((f"{tmp_path}/sources",), f"{tmp_path}/sources/link")):
        one = Annealer(machine.settings(), CopyJig, sources)
        outcome = one.run(machine.task(copied(Path(src), place / "dst")))
        one.jig.close()
        assert isinstance(outcome, Failed)
        assert f"{src} is outside tasks.sources" in outcome.reason
        assert outcome.forbidden == "tasks.sources"
    assert machine.events() == []
    assert not list(place.iterdir())


def test_a_key_of_the_configuration_is_refused_below_the_sources_too(machine: Any, place: Path, copier: Any) -> None:
    key = machine.settings().key_files[0]
    outcome = copier.run(machine.task(copied(Path(key), place / "dst")))
    assert (outcome.forbidden, machine.events()) == ("tasks.sources", [])
    assert "a key of this host" in outcome.reason


def test_sources_that_a_reload_allows_are_read_from_then_on(machine: Any, place: Path, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("x")
    one = Annealer(machine.settings(), CopyJig, ())
    assert isinstance(one.run(machine.task(copied(tmp_path / "src", place / "dst"))), Failed)
    one.jig.configure(Settings(ssh=machine.settings(), tasks=TasksSettings(sources=(str(tmp_path),))))
    assert isinstance(one.run(machine.task(copied(tmp_path / "src", place / "dst"), epoch=2)), Succeeded)
    one.jig.close()


def test_files_that_are_too_large_together_fail_the_task(
    machine: Any, copier: Any, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "src").write_bytes(b"x" * (copy.MOST_BYTES // 2 + 1))
    twice = [{"src": str(tmp_path / "src"), "dst": str(place / name)} for name in "ab"]
    outcome = copier.run(machine.task({"files": twice}))
    assert isinstance(outcome, Failed)
    assert outcome.reason.endswith("use sync for more")


def test_a_file_that_this_host_cannot_read_is_no_failure_of_the_task(
    machine: Any, copier: Any, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root reads everything, so the kernel's answer is brought from elsewhere."""

    def denied(*_: object) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files, "read", denied)
    outcome = copier.run(machine.task(copied(Path("/etc/shadow"), place / "dst")))
    assert isinstance(outcome, Unknown)
    assert not outcome.begun
    assert outcome.reason.endswith("Permission denied; check the path and the mode there")


def test_a_noop_run_copies_nothing(machine: Any, copier: Any, place: Path) -> None:
    outcome = copier.run(machine.task(copied(Path("/etc/hostname"), place / "dst"), noop=True))
    assert "would write" in outcome.tail
    assert not list(place.iterdir())
