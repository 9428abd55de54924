"""The barclamps in etc/: they say nothing wrong, and their scripts do their work twice as well as once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb import jigs
from nodepool_ocb.catalogue import barclamp, rules
from nodepool_ocb.engine import attributes as blobs
from nodepool_ocb.engine import nodes
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.jigs.ssh import attributes
from nodepool_ocb.model.records import Deployment, DeploymentState, Json, Node

SHIPPED = Path(__file__).parents[2] / "etc" / "barclamps"
IMPORTED = barclamp.load([SHIPPED])
SERVERS = (
    "dns-database",
    "provisioner-dhcp-database",
    "provisioner-server",
)  # tests/provisioning/test_servers.py has them
SCRIPTED = sorted(name for name, role in IMPORTED.roles.items() if role.script and name not in SERVERS)

Run = Callable[..., tuple[subprocess.CompletedProcess[str], dict[str, Json]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a role's script below a root of its own, as the runner does: ``run(role, {place: value})``."""
    ssh = Path(jigs.__file__).parent / "ssh"
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("read_attribute", "write_attribute"):
        command = commands / name
        command.write_bytes((ssh / f"{name}.sh").read_bytes())
        command.chmod(0o755)
    (tmp_path / "root").mkdir()

    def act(
        role: str, values: Mapping[str, Json], script: str | None = None
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Json]]:
        sent = seen(role) if script is None else {}
        for place, value in values.items():
            sent = blobs.write(sent, place, value)
        (tmp_path / "run.tree").write_bytes(attributes.tree(sent))
        (tmp_path / "run.written").unlink(missing_ok=True)
        (tmp_path / "script").write_text(script or IMPORTED.roles[role].script or "")
        environment = {"PATH": f"{commands}:{os.environ['PATH']}", "OCB_RUN": f"{tmp_path}/run"}
        environment["OCB_LIBRARY"] = str(ssh / "library.sh")
        environment |= {"OCB_ROOT": str(tmp_path / "root"), "OCB_NODE": "n1.example.com", "OCB_ROLE": role}
        done = subprocess.run(
            ["sh", tmp_path / "script"], env=environment, capture_output=True, text=True, timeout=20, check=False
        )
        written = tmp_path / "run.written"
        return done, attributes.apply({}, written.read_bytes() if written.exists() else b"")

    return act


def seen(role: str) -> dict[str, Json]:
    """The defaults that the role and those above it have."""
    merged: dict[str, Json] = {}
    for name in (*sorted(rules.ancestry(IMPORTED.roles, role)), role):
        merged = blobs.merge(merged, rules.template(IMPORTED.roles, name))
    return merged


def files(root: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(root)): (path.read_text(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_they_are_imported_without_a_word() -> None:
    assert IMPORTED.problems == ()
    assert IMPORTED.warnings == ()
    assert len(SCRIPTED) >= 12


def test_every_script_belongs_to_a_role() -> None:
    parts = {"commission-disks", "commission-network", "commission-firmware"}  # of one script
    shared = {"dns-database", *parts}  # the former has the script of provisioner-dhcp-database
    folders = {path.name for path in (SHIPPED / "script" / "roles").iterdir()}
    assert folders == {*SCRIPTED, *SERVERS} - shared
    assert {IMPORTED.roles[each].script for each in parts} == {(SHIPPED / "script" / "commission.sh").read_text()}
    assert IMPORTED.roles["dns-database"].script == IMPORTED.roles["provisioner-dhcp-database"].script


def test_new_nodes_get_their_roles() -> None:
    world = World()
    world.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    for name, role in IMPORTED.roles.items():
        world.put(Stored(role, 0), name)
    admin = nodes.create(world, "a.example.com", Node(admin=True), admin_domain="example.com", now=1.0)
    managed = nodes.create(world, "n.example.com", Node(), admin_domain="example.com", now=1.0)
    assert "crowbar-admin-node@a.example.com" in dict(admin.noderoles)
    assert "ntp-server@a.example.com" in dict(admin.noderoles)
    assert "crowbar-managed-node@n.example.com" in dict(managed.noderoles)


VALUES: Mapping[str, Mapping[str, Json]] = {
    "hosts-file": {"hosts/entries": ["10.0.0.1 n1.example.com n1", "10.0.0.2 n2"]},
    "dns-client": {"dns/servers": ["10.0.0.53"], "dns/search": ["example.com"]},
    "ntp-client": {"ntp/servers": {"a.example.com": "a.example.com"}},
    "users-and-keys": {"users/list": [{"name": "ada", "keys": ["ssh-ed25519 AAAA ada", "ssh-ed25519 BBBB b"]}]},
    "packages": {"packages/install": ["tmux", "vim"]},
    "sysctl": {"sysctl/settings": ["vm.swappiness = 10"]},
    "logging-client": {"logging/servers": {"l.example.com": "l.example.com:514"}},
    "quorum-client": {"quorum/members": {"n1.example.com": "n1", "n2.example.com": "n2"}},
}

WANTED: Mapping[str, tuple[str, str]] = {
    "hosts-file": (
        "etc/hosts",
        "# begin of nodepool-ocb\n10.0.0.1 n1.example.com n1\n10.0.0.2 n2\n# end of nodepool-ocb\n",
    ),
    "dns-client": ("etc/resolv.conf", "search example.com\nnameserver 10.0.0.53\n"),
    "ntp-client": ("etc/systemd/timesyncd.conf.d/nodepool-ocb.conf", "[Time]\nNTP=a.example.com\n"),
    "users-and-keys": ("home/ada/.ssh/authorized_keys", "ssh-ed25519 AAAA ada\nssh-ed25519 BBBB b\n"),
    "packages": ("var/lib/nodepool-ocb/packages", "tmux\nvim\n"),
    "sysctl": ("etc/sysctl.d/90-nodepool-ocb.conf", "vm.swappiness = 10\n"),
    "timezone": ("etc/timezone", "Etc/UTC\n"),
    "motd": ("etc/motd", "This machine is managed by nodepool-ocb; changes made by hand may be undone.\n"),
    "quorum-client": ("var/lib/nodepool-ocb/quorum/members", "n1\nn2\n"),
}


@pytest.mark.parametrize("role", SCRIPTED)
@pytest.mark.parametrize("given", [False, True], ids=["defaults", "values"])
def test_a_script_does_its_work_and_a_second_time_changes_nothing(
    run: Run, tmp_path: Path, role: str, given: bool
) -> None:
    if role == "quorum-client" and not given:
        pytest.skip("it has nothing to do without members, and fails")
    values = VALUES.get(role, {}) if given else {}
    assert rules.faults(IMPORTED.roles, role, _blob(values)) == []
    done, wall = run(role, values)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    before = files(tmp_path / "root")
    if role in WANTED and (given or role not in VALUES):
        place, text = WANTED[role]
        assert before[place][0] == text
    again, wall_again = run(role, values)
    assert (again.returncode == 0) is ("destructive" not in IMPORTED.roles[role].flags)
    if again.returncode == 0:
        assert wall_again == wall
    if role != "packages":
        assert files(tmp_path / "root") == before


@pytest.mark.parametrize("role", SCRIPTED)
def test_no_role_succeeds_where_a_value_cannot_be_read(run: Run, tmp_path: Path, role: str) -> None:
    reads = _reads(tmp_path, lambda: run(role, VALUES.get(role, {})))
    assert reads or role in ("machine-inventory", "quorum-member")
    place, _ = WANTED.get(role, ("", ""))
    assert all(code and place not in places for code, places in reads), reads


@pytest.mark.parametrize("page", ["barclamps.md", "jigs.md"])
def test_no_script_of_the_docs_succeeds_where_a_value_cannot_be_read(run: Run, tmp_path: Path, page: str) -> None:
    text = (SHIPPED.parents[1] / "docs" / page).read_text()
    (script,) = re.findall(r"^ *#!/bin/sh\n *set -eu\n *\. \"\$OCB_LIBRARY\"\n.*?(?=^ *```)", text, re.M | re.S)
    values = {"example/servers": ["a"], "ntp/fallback": ["b"]}
    assert run("", values, textwrap.dedent(script))[0].returncode == 0
    assert len(files(tmp_path / "root")) == 1
    shutil.rmtree(tmp_path / "root")
    reads = _reads(tmp_path, lambda: run("", values, textwrap.dedent(script)))
    assert reads
    assert all(code and not places for code, places in reads), reads


def _reads(tmp_path: Path, run: Callable[[], Any]) -> list[tuple[int, tuple[str, ...]]]:
    """The exit code, and which files there are, where the first, second ... reading of an attribute fails."""
    command, counted = tmp_path / "bin" / "read_attribute", tmp_path / "counted"
    works = command.read_text()
    reads: list[tuple[int, tuple[str, ...]]] = []
    while True:
        counted.write_text("")
        shutil.rmtree(tmp_path / "root", ignore_errors=True)
        fails = f"echo >>{counted}; [ $(wc -l <{counted}) -ne {len(reads) + 1} ] || exit 1\n"
        command.write_text(works.replace("set -u\n", f"set -u\n{fails}", 1))
        done, _ = run()
        if len(counted.read_text()) <= len(reads):
            return reads
        reads.append((done.returncode, tuple(files(tmp_path / "root"))))


def _blob(values: Mapping[str, Json]) -> dict[str, Any]:
    blob: dict[str, Any] = {}
    for place, value in values.items():
        blob = blobs.write(blob, place, value)
    return blob


def test_other_lines_of_a_hosts_file_stay(run: Run, tmp_path: Path) -> None:
    hosts = tmp_path / "root" / "etc" / "hosts"
    hosts.parent.mkdir()
    hosts.write_text("127.0.0.1 localhost\n# begin of nodepool-ocb\n10.9.9.9 old\n# end of nodepool-ocb\n::1 six\n")
    run("hosts-file", {"hosts/entries": ["10.0.0.1 n1"]})
    assert hosts.read_text() == (
        "127.0.0.1 localhost\n::1 six\n# begin of nodepool-ocb\n10.0.0.1 n1\n# end of nodepool-ocb\n"
    )


def test_what_scripts_tell_fits_the_attributes_that_their_roles_declare(run: Run) -> None:
    for role in SCRIPTED:
        _, wall = run(role, {})
        assert rules.faults(IMPORTED.roles, role, wall) == []
    _, wall = run("ntp-server", {})
    assert wall == {"ntp": {"servers": {"n1.example.com": "n1.example.com"}}}
    _, wall = run("machine-inventory", {})
    assert isinstance(wall["inventory"]["cpus"], int)


def test_a_client_without_members_fails(run: Run) -> None:
    done, _ = run("quorum-client", {})
    assert done.returncode != 0
    assert "no attribute quorum/members" in done.stderr


def test_keys_are_not_written_through_a_link(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "root" / "home" / "ada"
    home.mkdir(parents=True)
    (home / ".ssh").symlink_to(tmp_path)
    done, _ = run("users-and-keys", VALUES["users-and-keys"])
    assert done.returncode == 1
    assert not (tmp_path / "authorized_keys").exists()
