"""The units as shipped, as far as they can be judged without a running systemd; test_systemd.py runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from nodepool_ocb import config
from nodepool_ocb.images import nodepool
from nodepool_ocb.testing import forkserver
from tests.docs.pages import ROOT, blocks

UNITS = sorted((ROOT / "etc/systemd").glob("*.service"))
#: What implies NoNewPrivileges= where User= is set and CAP_SYS_ADMIN is not: systemd.exec(5).
IMPLIES_NO_NEW_PRIVILEGES = {
    *("SystemCallFilter", "SystemCallLog", "SystemCallArchitectures", "RestrictAddressFamilies", "RestrictNamespaces"),
    *("PrivateDevices", "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "ProtectClock"),
    *("MemoryDenyWriteExecute", "RestrictRealtime", "RestrictSUIDSGID", "DynamicUser", "LockPersonality"),
    *("ProtectHostname", "NoNewPrivileges"),
}


def settings(unit: Path) -> defaultdict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in unit.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def folders(unit: Path) -> list[Path]:
    known = settings(unit)
    places = (("StateDirectory", "/var/lib"), ("LogsDirectory", "/var/log"))
    return [Path(above, name) for key, above in places for value in known[key] for name in value.split()]


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("there is no systemd-analyze here")
    bin = Path(sys.executable).parent
    for unit in (ROOT / "etc/systemd").iterdir():
        (tmp_path / unit.name).write_text(unit.read_text().replace("/usr/local/bin", str(bin)))
    units = sorted(str(path) for path in tmp_path.iterdir())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, timeout=60, check=False
    )
    about_ours = [line for line in done.stderr.splitlines() if "nodepool-ocb" in line]
    assert about_ours == []


@pytest.mark.parametrize("daemon", ["annealer", "api", "launcher"])  # the builder runs as root: docs/security.md
def test_the_exposure_of_a_unit_is_15_tenths_or_less(daemon: str) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("there is no systemd-analyze here")
    unit = ROOT / f"etc/systemd/nodepool-ocb-{daemon}.service"
    analyze = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=15", str(unit)]
    done = subprocess.run(analyze, capture_output=True, text=True, timeout=60, check=False)
    if "offline" in done.stderr:
        pytest.skip("this systemd-analyze is older than --offline")
    assert done.returncode == 0, done.stdout.splitlines()[-1]


def test_the_page_of_operations_says_that_the_socket_of_docker_equals_root() -> None:
    page = " ".join((ROOT / "docs/operations.md").read_text().split())
    assert "Driver `docker` needs the socket of docker, and access to that socket equals root on the host." in page
    drop_in = next(block.text for block in blocks(ROOT / "docs/operations.md") if "docker.conf" in block.text)
    assert "SupplementaryGroups=docker" in drop_in
    assert not settings(ROOT / "etc/systemd/nodepool-ocb-launcher.service")["SupplementaryGroups"]


def test_no_folder_of_a_unit_is_another_s_or_the_runner_s() -> None:
    taken = [(config.SshSettings().state_dir, "the runner")]
    for unit in UNITS:
        for folder in folders(unit):
            for other, whose in taken:
                assert not folder.is_relative_to(other), (unit.name, whose)
                assert not Path(other).is_relative_to(folder), (unit.name, whose)
        taken += [(str(folder), unit.name) for folder in folders(unit)]


def test_the_shipped_configuration_writes_where_the_units_let_it() -> None:
    annealer, _api, builder, _launcher = UNITS
    assert config.load(ROOT / "etc/nodepool-ocb.yaml").annealer.log_dir in map(str, folders(annealer))
    shipped = nodepool.load(ROOT / "etc/nodepool.yaml", environ=os.environ)
    for file in (shipped.images_dir, shipped.build_log_dir):
        assert any(Path(str(file)).is_relative_to(folder) for folder in folders(builder))


def test_the_builder_s_unit_takes_no_right_from_newuidmap() -> None:
    assert not settings(ROOT / "etc/systemd/nodepool-ocb-builder.service").keys() & IMPLIES_NO_NEW_PRIVILEGES


def test_the_daemons_have_ports_of_their_own_in_the_shipped_configuration() -> None:
    assert config.shared_port(config.load(ROOT / "etc/nodepool-ocb.yaml"), launcher=True, api=True) is None


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_leaves_the_mode_of_the_configuration_to_whoever_wrote_it(unit: Path) -> None:
    assert "ConfigurationDirectoryMode" not in settings(unit)


def test_a_builder_that_is_to_reload_is_refused_for_its_nodepool_yaml_too(tmp_path: Path) -> None:
    (tmp_path / "nodepool-ocb.yaml").touch()
    (tmp_path / "nodepool.yaml").write_text("diskimage: []\n")
    program = Path(sys.executable).with_name("nodepool-ocb-builder")
    said = subprocess.run([program, "--config", tmp_path, "--check"], capture_output=True, text=True, check=False)
    assert (said.returncode, "did you mean `diskimages`" in said.stderr) == (1, True)


@pytest.mark.parametrize(
    ("text", "sentence", "kinds"),
    [
        ("ssh: {key_files: [gone]}", "ssh.key_files: none of these exists", {"annealer"}),
        ("ssh: {key_files: [.]}", "is a folder", {"annealer"}),
        ("zookeeper: {hosts: '192.0.2.1:2181'}", "is remote, and the connection", {"annealer", "builder", "launcher"}),
        ("zookeeper: {tls: {ca: gone.pem}}", "zookeeper.tls.ca: ", {"annealer", "builder", "launcher"}),
        ("zookeeper: {hosts: '127.0.0.1:99999'}", "port 99999", {"annealer", "builder", "launcher"}),
    ],
)
def test_a_daemon_refuses_to_reload_what_config_check_refuses(
    tmp_path: Path, text: str, sentence: str, kinds: set[str]
) -> None:
    file = tmp_path / "nodepool-ocb.yaml"
    file.write_text(text)
    (tmp_path / "nodepool.yaml").write_text("diskimages: []\n")

    def said(*words: str) -> tuple[int, bool]:
        log = tmp_path / words[-1]
        log.unlink(missing_ok=True)
        code = forkserver.shared().start(words, os.environ, log).wait(60.0)
        return code, log.read_text().count(f"{file}:") == 1 and sentence in log.read_text()

    person = tmp_path / "person.py"
    person.write_text("from nodepool_ocb.cli.main import main\nmain()\n")
    assert said(str(person), "--config", str(file), "config", "check", "--offline") == (1, True)
    for kind in ("annealer", "builder", "launcher"):
        assert said("-m", f"nodepool_ocb_{kind}.main", "--config", str(file), "--check") == (
            (1, True) if kind in kinds else (0, False)
        ), kind


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_calls_its_program_with_options_that_it_has(unit: Path) -> None:
    known = settings(unit)
    start, check = known["ExecStart"][0].split(), known["ExecReload"][0].split()
    assert check == [*start, "--check"]
    program = Path(sys.executable).with_name(Path(start[0]).name)
    said = subprocess.run([program, *check[1:-2], "/nowhere", "--check"], capture_output=True, text=True, check=False)
    assert (said.returncode, "/nowhere: cannot be read" in said.stderr) == (1, True)
