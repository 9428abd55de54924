"""The roles in etc/ are checked: what a run left is in sync, what was changed is found, and a run mends it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from nodepool_ocb.engine import attributes as blobs
from nodepool_ocb.engine.drift import HONOURED
from nodepool_ocb.jigs.ssh import attributes
from nodepool_ocb.model.records import Json
from tests.catalogue.test_shipped_barclamps import IMPORTED, SCRIPTED, VALUES, seen
from tests.jigs.bench import Bench, Ended

GIVEN: Mapping[str, Mapping[str, Json]] = {
    **VALUES,
    "users-and-keys": {"users/list": [{"name": "ada", "keys": ["ssh-ed25519 AAAA ada"], "shell": "/bin/dash"}]},
    "ntp-server": {},
}
DESTRUCTIVE = "disk-layout"
FACTS = "machine-inventory"
FILELESS = (FACTS, "provisioner-discover", *(name for name in SCRIPTED if name.startswith("commission-")))


class Role(NamedTuple):
    """A shipped role with its attributes, on a bench."""

    bench: Bench
    script: str
    root: Path

    def run(self) -> Ended:
        return self.bench.run(self.script, OCB_ROOT=str(self.root))

    def check(self) -> Ended:
        return self.bench.check(self.script, OCB_ROOT=str(self.root))


def laid(bench: Bench, role: str, root: Path, values: Mapping[str, Json] | None = None) -> Role:
    sent = seen(role)
    for place, value in (GIVEN.get(role, {}) if values is None else values).items():
        sent = blobs.write(sent, place, value)
    bench.give(attributes.tree(sent))
    return Role(bench, IMPORTED.roles[role].script or "", root)


@pytest.fixture
def below(tmp_path: Path) -> Callable[[str], Role]:
    """A role below a root of its own."""

    def lay(role: str) -> Role:
        (tmp_path / "root").mkdir()
        return laid(Bench(tmp_path / "bench"), role, tmp_path / "root")

    return lay


def standing(root: Path) -> dict[str, tuple[int, int, int, int]]:
    found = {str(path.relative_to(root)): path.lstat() for path in sorted(root.rglob("*"))}
    return {name: (each.st_ino, each.st_mode, each.st_mtime_ns, each.st_uid) for name, each in found.items()}


def test_every_role_that_acts_has_a_check() -> None:
    assert [name for name in SCRIPTED if IMPORTED.roles[name].check != HONOURED] == []


@pytest.mark.parametrize("role", [name for name in SCRIPTED if name not in FILELESS])
def test_a_check_finds_what_was_changed_and_a_run_mends_it(
    below: Callable[[str], Role], role: str, request: pytest.FixtureRequest
) -> None:
    """Every damage to one file of the role, and one to each other file; with ``--long`` every damage to every file."""
    made = below(role)
    if role != DESTRUCTIVE:
        assert made.check().code == 2
    assert made.run().code == 0
    assert made.check().code == 0
    damages = (changed, widened, linked)
    for number, file in enumerate(
        sorted(each for each in made.root.rglob("*") if each.is_file() and not each.is_symlink())
    ):
        every = not number or request.config.getoption("--long")
        for damage in damages if every else damages[number % 3 :][:1]:
            damage(file)
            before = standing(made.root)
            assert made.check().code == 2
            assert standing(made.root) == before, "a check changes nothing"
            if role == DESTRUCTIVE:
                file.unlink()
            assert made.run().code == 0
            assert made.check().code == 0
            assert not file.is_symlink()
            assert stat.S_IMODE(file.stat().st_mode) in (0o644, 0o600)


def changed(file: Path) -> None:
    if file.name == "hosts":
        file.write_text(file.read_text().replace("# end", "10.9.9.9 by-hand\n# end"))
    else:
        file.write_text("by hand\n")


def widened(file: Path) -> None:
    file.chmod(0o666)


def linked(file: Path) -> None:
    file.rename(file.with_name("equal"))
    file.symlink_to("equal")


def test_facts_that_changed_are_found(below: Callable[[str], Role]) -> None:
    role = below("machine-inventory")
    assert role.run().code == 0
    facts = blobs.merge(seen("machine-inventory"), attributes.apply({}, role.bench.written))
    role.bench.give(attributes.tree(facts))
    assert role.check() == (0, "")
    role.bench.give(attributes.tree(blobs.write(facts, "inventory/kernel", "2.6.1")))
    found = role.check()
    assert (found.code, found.said) == (
        2,
        f"inventory/kernel is {os.uname().release}, and was 2.6.1 at the newest run\n",
    )
    assert role.bench.written == b""


@pytest.mark.parametrize("lost", ["# begin of nodepool-ocb\n", "# end of nodepool-ocb\n"])
def test_a_hosts_file_with_one_marker_keeps_every_line(below: Callable[[str], Role], lost: str) -> None:
    role = below("hosts-file")
    hosts = role.root / "etc" / "hosts"
    assert role.run().code == 0
    hosts.write_text("127.0.0.1 localhost\n" + hosts.read_text().replace(lost, "") + "1.2.3.4 precious\n")
    before = hosts.read_text()
    assert (role.check().code, "once each" in role.check().said) == (2, True)
    ended = role.run()
    assert (ended.code, "stays as it is" in ended.said) == (1, True)
    assert hosts.read_text() == before
    hosts.write_text(before + before)
    assert role.run().code == 1


@pytest.mark.parametrize("role", [name for name in SCRIPTED if name not in FILELESS])
def test_no_role_writes_through_a_link_at_a_path_that_it_writes(below: Callable[[str], Role], role: str) -> None:
    """Links stand at each path, at the names of temporary files of former versions, and at each directory in turn."""
    made = below(role)
    assert made.run().code == 0
    victim, folder = made.root.parent / "victim", made.root.parent / "folder"
    victim.write_text("precious\n")
    victim.chmod(0o600)
    folder.mkdir()
    paths = [path for path in made.root.rglob("*") if not path.is_dir() or path.is_symlink()]
    files = [path for path in paths if not path.is_symlink()]
    for path in paths:
        path.unlink()
        path.symlink_to(victim)
    script = f"""for pid in $(seq $$ $(($$ + 60))); do {"; ".join(f"ln -s {victim} {path}.new.$pid" for path in files)}; done"""
    assert "precious" not in made.check().said
    if role == DESTRUCTIVE:
        assert made.run().code == 1, "a link counts as the mark"
        paths[0].unlink()
    ended = made.bench.run(f"{script}\n{made.script}", OCB_ROOT=str(made.root))
    assert ended.code == 0, ended
    assert victim.read_text() == "precious\n"
    assert not list(made.root.rglob("*.new.*"))
    home = made.root / "home" / "ada" / ".ssh"
    if home.exists():
        shutil.rmtree(home)
        home.symlink_to(folder)
        assert made.check().code == 2
        assert made.run().code == 1
        assert not list(folder.iterdir())


# -- the machine itself: a namespace of mounts and of the network has its files and its kernel's parameters --


MOUNTS = "etc home run var/log"
NEEDED = ("passwd", "group", "shadow", "gshadow", "login.defs", "pam.d", "security", "default", "skel", "nsswitch.conf")


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Role]:
    """A role on a machine of its own: ``machine(role, {place: value})``; its files are below ``tmp_path / "machine"``."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-mn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root makes a namespace with files of its own")
    own = tmp_path / "machine"
    for name in MOUNTS.split():
        (own / name).mkdir(parents=True)
    subprocess.run(
        ["cp", "-a", *filter(os.path.exists, (f"/etc/{name}" for name in NEEDED)), str(own / "etc")], check=True
    )
    mounts = "\n".join(f'mount --bind "{own}/{name}" /{name}' for name in MOUNTS.split())
    enter = tmp_path / "enter"
    enter.write_text(f'set -eu\n{mounts}\nexec "$@"\n')
    bench = Bench(tmp_path / "bench", wrapper=("unshare", "-mn", "sh", str(enter)))

    def lay(role: str, values: Mapping[str, Json]) -> Role:
        return laid(bench, role, Path("/"), values)

    return lay


def test_an_account_its_shell_and_its_keys_are_checked_and_mended(machine: Callable[..., Role], tmp_path: Path) -> None:
    role = machine("users-and-keys", GIVEN["users-and-keys"])
    assert role.check() == (2, "there is no account ada\n")
    assert role.run().code == 0
    assert role.check() == (0, "")
    own = tmp_path / "machine"
    passwd = own / "etc" / "passwd"
    [line] = [each for each in passwd.read_text().splitlines() if each.startswith("ada:")]
    uid, gid = (int(word) for word in line.split(":")[2:4])
    ssh = own / "home" / "ada" / ".ssh"
    keys = ssh / "authorized_keys"
    for damage, said in {
        lambda: passwd.write_text(
            passwd.read_text().replace(line, line.replace("/bin/dash", "/bin/false"))
        ): "the shell of ada",
        lambda: keys.write_text("ssh-ed25519 EVIL eve\n"): "-ssh-ed25519 EVIL eve",
        lambda: os.chown(keys, 0, 0): "cannot be read",
        lambda: keys.chmod(0o644): "has mode 644",
        lambda: ssh.chmod(0o777): "has mode 777",
        keys.unlink: "is not there",
    }.items():
        damage()
        found = role.check()
        assert (found.code, said in found.said) == (2, True), found
        assert role.run().code == 0
        assert role.check() == (0, "")
        assert [(each.stat().st_uid, each.stat().st_gid) for each in (ssh, keys)] == [(uid, gid)] * 2


def test_a_user_whose_keys_are_managed_cannot_have_root_write_elsewhere(
    machine: Callable[..., Role], tmp_path: Path
) -> None:
    role = machine("users-and-keys", GIVEN["users-and-keys"])
    assert role.run().code == 0
    own = tmp_path / "machine"
    victim, shared = own / "etc" / "victim", own / "etc" / "shared"
    victim.write_text("root's\n")
    victim.chmod(0o600)
    shared.mkdir()
    ssh, keys = "/home/ada/.ssh", "/home/ada/.ssh/authorized_keys"
    plant = f"for pid in $(seq $$ $(($$ + 300))); do ln -s /etc/victim {keys}.new.$pid; done; ln -sf /etc/victim {keys}"
    planted = f"setpriv --reuid ada --regid ada --init-groups sh -c '{plant}'\n"
    check = role.bench.check(f"{planted}{role.script}", OCB_ROOT="/")
    assert (check.code, "would have written through it" in check.said, "root's" in check.said) == (2, True, False)
    assert role.bench.run(f"{planted}{role.script}", OCB_ROOT="/").code == 0
    assert (victim.read_text(), victim.stat().st_uid, stat.S_IMODE(victim.stat().st_mode)) == ("root's\n", 0, 0o600)
    assert sorted(each.name for each in (own / ssh[1:]).iterdir()) == ["authorized_keys"]
    moved = f"setpriv --reuid ada --regid ada --init-groups sh -c 'rm -rf {ssh}; ln -s /etc/shared {ssh}'\n"
    assert role.bench.run(f"{moved}{role.script}", OCB_ROOT="/").code == 1
    assert (list(shared.iterdir()), shared.stat().st_uid, stat.S_IMODE(shared.stat().st_mode)) == ([], 0, 0o755)
    hard = f"rm {ssh}; install -d -o ada -g ada -m 700 {ssh}; ln /etc/victim {ssh}/precious\n"
    assert role.bench.run(f"{hard}{role.script}", OCB_ROOT="/").code == 0
    assert victim.stat().st_uid == 0, "a hard link to a file of root does not give the file away"


def test_a_parameter_that_the_kernel_lost_is_found_and_set_again(machine: Callable[..., Role]) -> None:
    role = machine(
        "sysctl", {"sysctl/settings": ["net.ipv4.ip_forward = 1", "net.ipv4.ip_local_port_range= 2000  3000"]}
    )
    assert role.check().code == 2
    file = role.bench.folder / "role"
    file.write_text(role.script)
    alone = f"(unset OCB_CHECK; sh {file} >/dev/null)\n"  # in the same namespace of the network
    assert role.bench.check(f"{alone}{role.script}", OCB_ROOT="/") == (0, "")
    found = role.bench.check(f"{alone}sysctl -q -w net.ipv4.ip_forward=0\n{role.script}", OCB_ROOT="/")
    assert found == (2, "net.ipv4.ip_forward is 0 in the running kernel, and is to be 1\n")


def test_a_parameter_that_cannot_be_read_is_named(machine: Callable[..., Role]) -> None:
    role = machine("sysctl", {"sysctl/settings": ["net.ipv4.route.flush = 1"]})
    assert role.run().code == 0
    assert role.check() == (0, "net.ipv4.route.flush cannot be read: it is not checked\n")


def test_a_time_zone_that_was_changed_by_hand_is_found(machine: Callable[..., Role], tmp_path: Path) -> None:
    if not Path("/usr/share/zoneinfo/Etc/UTC").exists():
        pytest.skip("tzdata is not installed")
    role = machine("timezone", {})
    assert role.run().code == 0
    assert role.check() == (0, "")
    local = tmp_path / "machine" / "etc" / "localtime"
    local.unlink()
    local.symlink_to("/usr/share/zoneinfo/Etc/GMT")
    assert role.check().code == 2
    assert role.run().code == 0
    assert role.check() == (0, "")


PACKAGES = {
    "dpkg-query": "[ -e {have} ] && echo 'ii '",
    "apt-get": '[ "$2" = update ] || : >{have}',
    "rpm": "[ -e {have} ]",
    "dnf": ": >{have}",
}


@pytest.mark.parametrize("manager", ["apt-get", "dnf"])
def test_a_package_that_was_removed_is_found_and_installed(tmp_path: Path, manager: str) -> None:
    role = laid(Bench(tmp_path / "bench"), "packages", Path("/"), {"packages/install": ["tmux"]})
    have = tmp_path / "have"
    for name, text in PACKAGES.items():
        command = role.bench.folder / "bin" / name
        command.write_text(f"#!/bin/sh\n{text.format(have=have)}\n")
        command.chmod(0o755)
    script = role.script if manager == "apt-get" else role.script.replace("command -v apt-get", "false")
    assert role.bench.check(script, OCB_ROOT="/") == (2, "not installed: tmux\n")
    assert not have.exists()
    assert role.bench.run(script, OCB_ROOT="/").code == 0
    assert role.bench.check(script, OCB_ROOT="/") == (0, "")


@pytest.mark.parametrize("role", ["ntp-client", "ntp-server", "logging-client", "logging-server"])
def test_a_service_that_was_stopped_is_found_and_started(
    machine: Callable[..., Role], tmp_path: Path, role: str
) -> None:
    made = machine(role, GIVEN.get(role, {}))
    up = tmp_path / "up"
    systemctl = made.bench.folder / "bin" / "systemctl"
    systemctl.write_text(
        f"#!/bin/sh\ncase $1 in is-active) [ -e {up} ] ;; start) : >{up} ;; show) echo ConditionResult=yes ;; esac\n"
    )
    systemctl.chmod(0o755)
    assert made.run().code == 0
    assert made.check() == (0, "")
    up.unlink()
    assert (made.check().code, "does not run" in made.check().said) == (2, True)
    assert made.run().code == 0
    assert made.check() == (0, "")
