"""Jig task-puppet with the real puppet, on a machine that has it and on one that seems to have none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.jigs import Failed, Succeeded
from nodepool_ocb.jigs.tasks.puppet import PuppetJig
from tests.jigs.workshop import Annealer, Machine

needs_puppet = pytest.mark.skipif(
    shutil.which("puppet", path="/usr/bin:/opt/puppetlabs/bin") is None,
    reason="there is no puppet here; tools/setup installs puppet-agent",
)


@pytest.fixture
def puppet(machine: Machine) -> Iterator[Annealer]:
    one = Annealer(machine.settings(), PuppetJig)
    yield one
    one.jig.close()


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """Modules with one class, which makes a file."""
    manifests = tmp_path / "modules" / "wanted" / "manifests"
    manifests.mkdir(parents=True)
    (manifests / "init.pp").write_text("class wanted($path) { file { $path: ensure => file, content => 'by puppet' } }")
    return tmp_path / "modules"


def manifest(folder: Path, text: str) -> str:
    file = folder / "site.pp"
    file.write_text(text)
    return str(file)


@needs_puppet
def test_a_manifest_is_applied_with_its_modules_and_is_idempotent(
    machine: Any, puppet: Any, modules: Path, tmp_path: Path
) -> None:
    path = manifest(tmp_path, f"class {{ 'wanted': path => '{tmp_path}/made' }}")
    parameters = {"puppet_manifest": path, "puppet_modules": f"{tmp_path}/none:{modules}"}
    first = puppet.run(machine.task(parameters))
    assert isinstance(first, Succeeded)
    assert "exit code 2: it changed something" in first.tail
    assert (tmp_path / "made").read_text() == "by puppet"
    again = puppet.run(machine.task(parameters, generation=2, epoch=2))
    assert isinstance(again, Succeeded)
    assert "exit code 2" not in again.tail


@pytest.mark.long
@needs_puppet
def test_a_noop_run_says_what_puppet_would_change(machine: Any, puppet: Any, tmp_path: Path) -> None:
    path = manifest(tmp_path, f"file {{ '{tmp_path}/made': ensure => file }}")
    outcome = puppet.run(machine.task({"puppet_manifest": path}, noop=True))
    assert isinstance(outcome, Succeeded)
    assert "(noop)" in outcome.tail
    assert "\x1b" not in outcome.tail, "no colours"
    assert not (tmp_path / "made").exists()


@needs_puppet
@pytest.mark.parametrize(
    ("more", "reason", "code"),
    [
        ("", "puppet apply: exit code 4: resources failed", 4),
        pytest.param(
            "notify { 'x': }",
            "puppet apply: exit code 6: it changed something, and resources failed",
            6,
            marks=pytest.mark.long,
        ),
        ("nonsense(", "puppet apply: exit code 1: the manifest could not be applied", 1),
    ],
    ids=["failed", "failed and changed", "nonsense"],
)
def test_puppet_fails_with_what_its_exit_code_means(
    machine: Any, puppet: Any, tmp_path: Path, more: str, reason: str, code: int
) -> None:
    path = manifest(tmp_path, f"exec {{ '/bin/false': }} {more}")
    outcome = puppet.run(machine.task({"puppet_manifest": path}))
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.exit_code) == (reason, code)


@pytest.mark.long
@needs_puppet
def test_puppet_runs_in_the_directory_that_the_task_names(machine: Any, puppet: Any, tmp_path: Path) -> None:
    manifest(tmp_path, "notify { 'found': }")
    outcome = puppet.run(machine.task({"puppet_manifest": "site.pp", "cwd": str(tmp_path)}))
    assert isinstance(outcome, Succeeded)
    missing = puppet.run(machine.task({"puppet_manifest": "site.pp", "cwd": "/no/such"}, epoch=2, generation=2))
    assert missing.reason == "there is no directory /no/such"


@needs_puppet
def test_a_manifest_that_is_not_there_is_the_reason(machine: Any, puppet: Any) -> None:
    outcome = puppet.run(machine.task({"puppet_manifest": "/no/such.pp"}))
    assert outcome.reason == "there is no manifest /no/such.pp on this machine"


def test_a_machine_without_puppet_is_told_with_the_package(machine: Any, tmp_path: Path) -> None:
    machine.leave_out(tmp_path / "programs", "puppet")
    one = Annealer(machine.settings(), PuppetJig)
    outcome = one.run(machine.task({"puppet_manifest": manifest(tmp_path, "")}))
    one.jig.close()
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith("there is no program puppet on this machine; install the package puppet-agent")
    assert outcome.exit_code == 127
