"""Files of the annealer's host that a task or an attribute names and may not have: refused, counted, in the journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from prometheus_client import REGISTRY

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Json
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.processes import await_that
from nodepool_ocb_annealer.runs.forbidden import Forbidden
from tests.fixtures.commands import Ocb
from tests.fixtures.labs import lab

Ask = Callable[..., Json]

LIST = """\
- {{id: copied, type: copy_files, role: [web], parameters: {{files: [{{src: {src}, dst: {dst}}}], retries: 0}}}}
- {{id: synced, type: sync, role: [web], requires: [free], parameters: {{src: {folder}/, dst: {dst}s, retries: 0}}}}
- {{id: free, type: shell, role: [web], parameters: {{cmd: 'true'}}}}
"""


def refused(ask: Ask) -> list[tuple[list[str], str]]:
    return [(entry["subjects"], entry["reason"]) for entry in ask("history", "--verb", "refuse")]


def test_a_task_gets_no_key_of_the_annealer_s_host_and_its_attempt_stands_in_the_journal(
    ocb: Ocb, ask: Ask, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    with lab(ocb, zk_settings, tmp_path, 1) as daemon:
        key = Path(yaml.safe_load(daemon.config.read_text())["ssh"]["key_files"][0])
        text = LIST.format(src=key, dst=tmp_path / "stolen", folder=key.parent)
        (tmp_path / "tasks.yaml").write_text(text)
        for verb in (("check",), ("upload", "--deployment", "lab")):
            answer = ocb("tasks", *verb, str(tmp_path / "tasks.yaml"))
            assert answer.exit_code == 0, answer.output
            assert f"copied: src {key} is outside tasks.sources (it is not set)" in answer.stderr
            assert f"synced: src {key.parent}/ is outside tasks.sources" in answer.stderr
        planned = ocb("tasks", "plan", "--deployment", "lab", "--skip", "synced").stderr
        assert f"copied: src {key} is outside tasks.sources" in planned
        assert "synced: src" not in planned, "it would not run"
        run = ocb(
            "tasks",
            "run",
            "--deployment",
            "lab",
            "--facts-file",
            "none",
            "--wait",
            "--timeout",
            "60",
            "--tasks",
            "copied",
        )
        assert run.exit_code != 0
        assert not (tmp_path / "stolen").exists()
        (subjects, reason), *others = refused(ask)
        assert others == []
        assert (subjects, "is outside tasks.sources" in reason) == (["lab.copied@n1.example.com"], True)


def test_a_reference_outside_the_directory_of_secrets_stands_in_the_journal_once(
    ocb: Ocb, ask: Ask, zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    """Its noderole is tried again and again; the journal is not filled by that."""
    (tmp_path / "b.yml").write_text(
        "barclamp: {name: b, version: 1}\nroles: [{name: db, jig: script, script: 'true'}]\n"
    )
    (tmp_path / "secrets").mkdir()
    with lab(ocb, zk_settings, tmp_path, 1) as daemon:
        daemon.configure(secrets={"directory": str(tmp_path / "secrets")})
        daemon.reload()
        for line in (f"barclamp import {tmp_path / 'b.yml'}", "node bind n1.example.com db"):
            assert ocb(*line.split()).exit_code == 0
        value = {"db": {"password": {"$secret": "file:/etc/hostname"}}}
        zk_session.commit([Create(paths.user("db", "n1.example.com"), value)])
        assert ocb("node", "commit", "n1.example.com").exit_code == 0
        await_that(lambda: refused(ask), 60, "the refusal is in the journal", alive=lambda: daemon.running)
        (subjects, reason), *others = refused(ask)
    assert (subjects, others) == (["db@n1.example.com"], [])
    assert "/etc/hostname is outside secrets.directory" in reason


def count() -> float:
    return REGISTRY.get_sample_value("nodepool_ocb_forbidden_files_total", {"setting": "tasks.sources"}) or 0.0


def test_each_refusal_is_counted_and_written_once_for_each_generation(
    zk_session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    forbidden, before = Forbidden(zk_session), count()
    for generation in (1, 1, 2):
        forbidden.note("t@n", generation, "tasks.sources", "/k is outside tasks.sources (it is not set)")
    assert count() - before == 3
    entries = [read.entry for read in journal.read(zk_session, journal.numbers(zk_session))]
    assert [(each.login, each.verb, each.subjects) for each in entries if each] == [
        ("annealer", "refuse file", ("t@n",))
    ] * 2
    assert caplog.text.count("/k is outside tasks.sources") == 2
