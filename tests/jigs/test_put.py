"""put and its like: content, mode and owner are one statement, and no user of the machine diverts them."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.jigs.bench import Bench

NOBODY = pwd.getpwnam("nobody")
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away, and works with the rights of others")
HEAD = 'set -eu\n. "$OCB_LIBRARY"\n'
SECRET = "root:$6$hash\n"


@pytest.fixture(scope="module")
def applets() -> Iterator[str]:
    """A directory of busybox, with the su that Debian's busybox lacks; every user may read it."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")
    with TemporaryDirectory(prefix="ocb-applets-") as folder:
        Path(folder).chmod(0o755)
        subprocess.run([busybox, "--install", "-s", folder], check=True)
        if not Path(folder, "su").exists():
            Path(folder, "su").symlink_to(shutil.which("su") or "/bin/su")
        yield folder


@pytest.fixture(params=["dash", "busybox"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """Debian's shell with GNU's programs, or busybox with its own."""
    if request.param == "busybox":
        applets: str = request.getfixturevalue("applets")
        return Bench(tmp_path / "bench", f"{applets}/sh", programs=applets)
    if shutil.which("dash") is None:
        pytest.skip("dash is not installed")
    return Bench(tmp_path / "bench", "dash")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The directory of the file; nothing half done is in it at the end."""
    folder = tmp_path / "place"
    folder.mkdir()
    yield folder
    assert not list(folder.rglob(".ocb-*"))


def put(file: Path, more: str = "") -> str:
    return f"{HEAD}lines one two | put {file} {more}\n"


def facts(file: Path) -> tuple[int, int, int]:
    found = file.lstat()
    return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid


# -- each way to differ: a check finds it, a run mends it, a check finds nothing --


def content(file: Path) -> None:
    file.write_text("one\nby hand\n")


def linked(file: Path) -> None:
    file.rename(file.with_name("equal"))
    file.symlink_to("equal")


def secret(file: Path) -> None:
    other = file.with_name("secret")
    other.write_text(SECRET)
    other.chmod(0o600)
    file.unlink()
    file.symlink_to(other)


def dangling(file: Path) -> None:
    file.unlink()
    file.symlink_to("/no/such")


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def linked_directory(file: Path) -> None:
    file.unlink()
    (file.parent / "folder").mkdir()
    file.symlink_to("folder")


def planted(file: Path) -> None:
    for number in (7, 12345):
        file.with_name(f"{file.name}.new.{number}").symlink_to("/no/such")


WAYS: dict[str, tuple[Callable[[Path], None], str]] = {
    "content": (content, "-by hand\n+two\n"),
    "a lower mode": (lambda file: file.chmod(0o600), "has mode 600, and is to have 644"),
    "a higher mode": (lambda file: file.chmod(0o666), "has mode 666, and is to have 644"),
    "setuid": (lambda file: file.chmod(0o4755), "has mode 4755, and is to have 644"),
    "missing": (Path.unlink, "is not there"),
    "no directory": (lambda file: shutil.rmtree(file.parent), "is not there"),
    "a link of equal content": (linked, "is a link to equal, and is to be a file"),
    "a link to a secret": (secret, "is a link to "),
    "a link to nothing": (dangling, "is a link to /no/such"),
    "a link to a directory": (linked_directory, "is a link to folder"),
    "a fifo": (fifo, "is a fifo, and is to be a file"),
    "leftovers of an attack": (planted, "would have written through it"),
}
ROOTS_WAYS: dict[str, tuple[Callable[[Path], None], str]] = {
    "another owner": (lambda file: os.chown(file, NOBODY.pw_uid, 0), f"belongs to {NOBODY.pw_uid}:0"),
    "another group": (lambda file: os.chown(file, 0, NOBODY.pw_gid), f"belongs to 0:{NOBODY.pw_gid}"),
}


@pytest.mark.parametrize("way", [*WAYS, *(pytest.param(way, marks=as_root) for way in ROOTS_WAYS)])
def test_a_check_finds_each_difference_and_a_run_mends_it(bench: Bench, place: Path, way: str) -> None:
    damage, said = (WAYS | ROOTS_WAYS)[way]
    file = place / "below" / "file"
    script = put(file)
    assert bench.run(script) == (0, f"wrote {file}\n")
    assert bench.check(script) == (0, "")
    damage(file)
    before = snapshot(place)
    found = bench.check(script)
    assert (found.code, said in found.said) == (2, True), found
    assert SECRET not in found.said
    assert snapshot(place) == before, "a check changes nothing"
    mended = bench.run(script)
    assert mended.code == 0, mended
    assert not file.is_symlink()
    assert (file.read_text(), facts(file)) == ("one\ntwo\n", (0o644, os.getuid(), os.getgid()))
    assert bench.check(script) == (0, "")
    assert bench.run(script) == (0, "")
    assert not list(file.parent.glob("*.new.*"))


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, int]]:
    return {
        str(path): (found.st_ino, found.st_mode, found.st_mtime_ns, found.st_uid)
        for path in sorted(folder.rglob("*"))
        if (found := path.lstat())
    }


def test_a_mode_that_a_role_tightens_is_brought_to_the_machine(bench: Bench, place: Path) -> None:
    assert bench.run(put(place / "f")).code == 0
    assert bench.run(put(place / "f", "600")) == (0, f"wrote {place}/f\n")
    assert facts(place / "f")[0] == 0o600


@as_root
def test_an_owner_belongs_to_the_statement_of_a_role(bench: Bench, place: Path) -> None:
    script = put(place / "f", "640 nobody:")
    assert bench.run(script).code == 0
    assert facts(place / "f") == (0o640, NOBODY.pw_uid, NOBODY.pw_gid)
    assert bench.check(script) == (0, "")
    os.chown(place / "f", 0, 0)
    assert f"belongs to 0:0, and must belong to {NOBODY.pw_uid}:" in bench.check(script).said


@as_root
def test_a_setgid_directory_says_the_group(bench: Bench, place: Path) -> None:
    os.chown(place, 0, NOBODY.pw_gid)
    place.chmod(0o2755)
    assert bench.run(put(place / "f")).code == 0
    assert facts(place / "f")[2] == NOBODY.pw_gid
    assert bench.check(put(place / "f")) == (0, "")


@pytest.mark.parametrize(("mode", "shown"), [(0o644, True), (0o640, False), (0o600, False)])
def test_a_check_shows_no_content_that_fewer_users_may_read_than_is_wanted(
    bench: Bench, place: Path, mode: int, shown: bool
) -> None:
    (place / "f").write_text("precious\n")
    (place / "f").chmod(mode)
    found = bench.check(put(place / "f"))
    assert (found.code, "precious" in found.said) == (2, shown)


@as_root
def test_a_check_shows_no_content_of_another_owner_that_is_closed_to_others(bench: Bench, place: Path) -> None:
    """As where the owner of the directory gives a file of root another name."""
    (place / "f").write_text("precious\n")
    (place / "f").chmod(0o640)
    found = bench.check(put(place / "f", "640 nobody:"))
    assert (found.code, "precious" in found.said) == (2, False)


def test_a_directory_in_the_place_of_the_file_is_an_error(bench: Bench, place: Path) -> None:
    (place / "f").mkdir()
    found = bench.check(put(place / "f"))
    assert (found.code, f"{place}/f is a directory, and is to be a file\n" in found.said) == (2, True)
    ended = bench.run(put(place / "f"))
    assert (ended.code, "is a directory, and is to be a file; move it away" in ended.said) == (1, True)
    assert list((place / "f").iterdir()) == []


def test_what_cannot_be_made_as_it_is_wanted_fails_the_run(bench: Bench, place: Path) -> None:
    """As on a file system that forgets modes: else each check finds what each run says it has mended."""
    ended = bench.run(f'{HEAD}chmod() {{ case $2 in /proc/*) ;; *) command chmod "$@" ;; esac; }}\n{put(place / "f")}')
    assert ended.code == 1
    assert "is not as it was made" in ended.said


def test_a_file_of_a_run_that_was_killed_goes_with_the_next(bench: Bench, place: Path) -> None:
    (place / ".ocb-f.0123456789abcdef").write_text("half")
    assert bench.run(put(place / "f")).code == 0
    assert [each.name for each in place.iterdir()] == ["f"]


# -- directories and links --


def test_a_directory_has_the_mode_that_the_role_says(bench: Bench, place: Path) -> None:
    script = f"{HEAD}put_directory {place}/a/d 700\n"
    assert f"{place}/a/d is not there" in bench.check(script).said
    assert bench.run(script) == (0, f"made {place}/a/d as wanted\n")
    assert bench.check(script) == (0, "")
    (place / "a" / "d").chmod(0o2755)
    found = bench.check(script)
    assert (found.code, "has mode 2755, and is to have 700\n" in found.said) == (2, True)
    assert bench.run(script).code == 0
    assert (facts(place / "a" / "d")[0], bench.check(script)) == (0o700, (0, ""))
    (place / "a" / "d").rmdir()
    (place / "a" / "d").symlink_to(place)
    assert "is a link to" in bench.check(script).said
    assert bench.run(script).code == 1
    assert (facts(place)[0], facts(place / "a")[0]) == (0o755, 0o755)


def test_a_directory_without_a_mode_keeps_its_own(bench: Bench, place: Path) -> None:
    (place / "d").mkdir(mode=0o711)
    assert bench.run(f"{HEAD}put_directory {place}/d") == (0, "")
    assert facts(place / "d")[0] == 0o711


def test_a_target_that_begins_with_a_dash_is_no_option(bench: Bench, place: Path) -> None:
    assert bench.run(f"{HEAD}put_link {place}/l -t\n") == (0, f"linked {place}/l to -t\n")
    assert os.readlink(place / "l") == "-t"


def test_what_a_killed_run_left_of_one_file_goes_and_not_what_another_file_writes(bench: Bench, place: Path) -> None:
    left, other = place / f".ocb-a.{'0' * 16}", place / f".ocb-a.conf.{'0' * 16}"
    left.touch()
    other.touch()
    assert bench.run(f"{HEAD}echo x | put {place}/a\n") == (0, f"wrote {place}/a\n")
    assert (left.exists(), other.exists()) == (False, True)
    other.unlink()


def test_a_link_leads_where_the_role_says(bench: Bench, place: Path) -> None:
    script = f"{HEAD}put_link {place}/l /some/where\n"
    for damage in (lambda: None, lambda: replaced(place / "l", "/else/where"), lambda: (place / "l").write_text("x")):
        with suppress(FileNotFoundError):
            (place / "l").unlink()
        damage()
        assert bench.check(script).code == 2
        assert bench.run(script) == (0, f"linked {place}/l to /some/where\n")
        assert bench.check(script) == (0, "")
        assert os.readlink(place / "l") == "/some/where"


def replaced(link: Path, target: str) -> None:
    link.symlink_to(target)


# -- directories of other users --


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A directory of another user, which that user may reach: pytest's own directories are closed to others."""
    with TemporaryDirectory(prefix="ocb-put-") as above:
        Path(above).chmod(0o755)
        folder = Path(above) / "theirs"
        folder.mkdir()
        os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
        yield folder
        assert not list(folder.rglob(".ocb-*"))


@as_root
@pytest.mark.parametrize("rights", ["", "as nobody "], ids=["root", "user"])
def test_no_link_of_the_owner_of_a_directory_is_written_through(
    bench: Bench, theirs: Path, tmp_path: Path, rights: str
) -> None:
    """Names are planted that former versions used, and the name of the file itself."""
    victim = tmp_path / "victim"
    victim.write_text("root's\n")
    script = f"{HEAD}for pid in $(seq $$ $(($$ + 300))); do ln -s {victim} {theirs}/f.new.$pid; done\n"
    ended = bench.run(f"{script}ln -s {victim} {theirs}/f\nlines mine | {rights}put {theirs}/f 600\n")
    assert ended.code == 0, ended
    assert victim.read_text() == "root's\n"
    assert (theirs / "f").read_text() == "mine\n"
    assert [each.name for each in theirs.iterdir()] == ["f"]


def test_a_file_that_is_replaced_by_a_link_while_it_is_read_shows_nothing(
    bench: Bench, place: Path, tmp_path: Path
) -> None:
    """A user who may change the directory does so after the look at the file; here a program stat does."""
    place.chmod(0o777)
    (tmp_path / "secret").write_text(SECRET)
    (place / "f").write_text("one\n")
    real = shutil.which("stat")
    swap = f'case "$*" in "-c %d:%i ./f") rm f; ln -s {tmp_path}/secret f ;; esac\n'
    command = bench.folder / "bin" / "stat"
    command.write_text(f'#!/bin/sh\n{real} "$@"\n{swap}')
    command.chmod(0o755)
    found = bench.check(f'{HEAD}stat() {{ {command} "$@"; }}\nlines one | put {place}/f\n')
    assert (place / "f").is_symlink()
    assert (found.code, SECRET in found.said) == (1, False)
    assert "was replaced while it was read" in found.said


@as_root
def test_a_link_on_the_way_is_not_followed_in_a_directory_of_another_user(
    bench: Bench, theirs: Path, tmp_path: Path
) -> None:
    """Also where root made the link: its name may be another since."""
    (tmp_path / "root").mkdir()
    (theirs / "link").symlink_to(tmp_path / "root")
    for verb in ("put", "put_directory"):
        ended = bench.run(f"{HEAD}echo x | {verb} {theirs}/link/f\n")
        assert (ended.code, "is not followed" in ended.said) == (1, True)
        assert bench.check(f"{HEAD}echo x | {verb} {theirs}/link/f; true\n").code == 1
    assert not list((tmp_path / "root").iterdir())


@as_root
@pytest.mark.parametrize("way", ["setpriv", "su"])
def test_the_rights_of_a_user_are_those_of_the_user(bench: Bench, theirs: Path, tmp_path: Path, way: str) -> None:
    if way == "su":
        (bench.folder / "bin" / "setpriv").write_text("#!/bin/sh\nexit 1\n")
        (bench.folder / "bin" / "setpriv").chmod(0o755)
    script = f"{HEAD}as nobody put_directory {theirs}/d 700\nlines key | as nobody put {theirs}/d/keys 600\n"
    assert bench.check(script).code == 2
    assert bench.run(script) == (0, f"made {theirs}/d as wanted\nwrote {theirs}/d/keys\n")
    mine = (NOBODY.pw_uid, NOBODY.pw_gid)
    assert [facts(theirs / "d"), facts(theirs / "d" / "keys")] == [(0o700, *mine), (0o600, *mine)]
    assert bench.check(script) == (0, "")
    os.chown(theirs / "d" / "keys", 0, 0)
    found = bench.check(script)
    assert (found.code, "cannot be read by user" in found.said) == (2, True)
    assert bench.run(script).code == 0
    assert facts(theirs / "d" / "keys") == (0o600, *mine)
    closed = tmp_path / "closed"
    closed.mkdir()
    ended = bench.run(f"{HEAD}lines x | as nobody put {closed}/f\n")
    assert (ended.code, list(closed.iterdir())) == (1, [])


@as_root
def test_a_link_of_the_user_is_not_followed_with_the_rights_of_the_user(bench: Bench, theirs: Path) -> None:
    (theirs / "real").mkdir()
    (theirs / "link").symlink_to("real")
    for path in (theirs / "real", theirs / "link"):
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
    ended = bench.run(f"{HEAD}lines x | as nobody put {theirs}/link/f\n")
    assert (ended.code, "is a link that belongs to user" in ended.said) == (1, True)
    assert not list((theirs / "real").iterdir())


@as_root
def test_a_user_gets_neither_the_environment_nor_the_output_of_the_run(bench: Bench, theirs: Path) -> None:
    spy = theirs / "seen"
    command = theirs.parent / "mv"
    command.write_text(f'#!/bin/sh\nexec 8>&1; env >{spy}; readlink /proc/self/fd/8 >>{spy}\nexec /bin/mv "$@"\n')
    command.chmod(0o755)
    script = (
        f"{HEAD}export PASSWORD=precious PATH={theirs.parent}:$PATH\nlines x | as nobody put {theirs}/f >log 2>&1\n"
    )
    assert bench.run(f"cd {bench.folder}\n{script}").code == 0
    seen = spy.read_text()
    assert "precious" not in seen
    assert "OCB_RUN" not in seen
    assert "pipe:" in seen


# -- services --


SYSTEMD = """
systemctl() {
  case $1 in
    is-active) [ -e {up} ] ;;
    is-system-running) echo ${system:-running} ;;
    show) 
      printf 'ConditionResult=%s\\nConditionTimestampMonotonic=%s\\n' ${condition:-yes} ${tried:-5} |
        grep -e "${3:-.}" -e "${5:-.}" ;;
    start) echo "systemctl $*"; [ -n "${fails-}" ] || : >{up} ;;
  esac
}
"""


def test_a_service_that_a_role_wants_to_run_is_missed_and_started(bench: Bench, tmp_path: Path) -> None:
    script = f"{HEAD}{SYSTEMD.replace('{up}', str(tmp_path / 'up'))}runs time.service\n"
    own = {"OCB_ROOT": "/"}
    assert bench.check(script, **own) == (2, "time.service does not run\n")
    assert bench.run(script, **own) == (0, "systemctl start time.service\nstarted time.service\n")
    assert bench.check(script, **own) == (0, "")
    (tmp_path / "up").unlink()
    assert bench.check(script) == (0, ""), "below another root there is no service"
    assert bench.check(script, system="offline", **own).code == 0
    assert bench.run(script, fails="1", **own).code == 1
    assert bench.run(script, fails="1", condition="no", **own).code == 0
    assert bench.check(script, condition="no", **own).code == 0
    assert bench.check(script, condition="no", tried="0", **own).code == 2


def test_a_service_that_has_yet_to_take_a_file_over_is_drift(bench: Bench, place: Path) -> None:
    owed = Path(f"/run/nodepool-ocb/owed{place}/f")
    script = f"{HEAD}systemctl() {{ [ $1 = is-failed ] || false; }}\nlines x | put_for time.service {place}/f"
    try:
        assert bench.run(script, OCB_ROOT="/").code == 1
        assert bench.check(script, OCB_ROOT="/") == (2, f"time.service has yet to take {place}/f over\n")
        assert owed.exists()
    finally:
        owed.unlink(missing_ok=True)
        with suppress(OSError):
            os.removedirs(owed.parent)
