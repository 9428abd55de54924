"""Imports of barclamps, without a command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.catalogue.files import BarclampFile
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.documents.document import Document
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.barclamps import importing
from nodepool_ocb.operations.barclamps.importing import BarclampImport
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from tests.fixtures.lossy_proxy import lost_answer
from tests.operations.performing import InterruptedPerformer, calm

ODD = "- {name: odd, jig: noop, flags: [strange]}\n"
WRONG = "- {name: wrong, jig: noop, requires: [wrong2]}\n- {name: wrong2, jig: noop, requires: [wrong]}\n"


def barclamp(folder: Path, name: str, roles: str, whole: bool = False) -> BarclampImport:
    (folder / f"{name}.yml").write_text(f"barclamp: {{name: {name}}}\nroles:\n{roles}")
    return BarclampImport(files=importing.read([folder / f"{name}.yml"]), whole=whole)


def test_after_a_conflict_an_import_is_decided_again_and_its_warnings_are_sent_one_time(
    world: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    other = barclamp(tmp_path, "other", "- {name: first, jig: noop}\n")
    mine = InterruptedPerformer(zk_settings, lambda: calm(zk_settings).perform(other))
    done = mine.perform(barclamp(tmp_path, "mine", ODD))
    assert [(row.change, row.name) for row in done.rows] == [("create", "odd")]
    assert {"first", "odd"} <= load_world(world).roles.keys()
    [warning] = mine.heard.notes
    assert (warning.startswith("warning: "), mine.reads) == (True, 2)
    assert done.answer.warnings == (warning.removeprefix("warning: "),)


def test_a_role_of_another_barclamp_that_came_meanwhile_is_left_as_it_is(
    world: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    other = barclamp(tmp_path, "other", "- {name: shared, jig: noop}\n")
    mine = InterruptedPerformer(zk_settings, lambda: calm(zk_settings).perform(other))
    done = mine.perform(barclamp(tmp_path, "mine", f"- {{name: shared, jig: noop}}\n{ODD}"))
    [problem] = done.answer.problems
    assert "role shared belongs to barclamp other, which was imported before" in problem
    assert ([row.name for row in done.rows], done.answer.roles) == (["odd"], ("odd",))
    assert load_world(world).roles["shared"].record.barclamp == "other"


def test_a_problem_leaves_its_role_out_or_refuses_a_whole_import(
    world: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    with pytest.raises(Invalid):
        calm(zk_settings).perform(barclamp(tmp_path, "mine", ODD + WRONG, whole=True))
    assert "odd" not in load_world(world).roles
    done = calm(zk_settings).perform(barclamp(tmp_path, "mine", ODD + WRONG))
    assert ([row.name for row in done.rows], len(done.answer.problems)) == (["odd"], 1)


def test_a_lost_answer_in_the_middle_of_an_import_loses_and_repeats_nothing(
    world: Session,
    zookeeper: Server,
    zk_settings: ZooKeeperSettings,
    chroot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nodepool_ocb.model.limits.MOST_CHANGES", 3)
    names = [f"role{number}" for number in range(6)]
    operation = barclamp(tmp_path, "mine", "".join(f"- {{name: {name}, jig: noop}}\n" for name in names))
    with lost_answer(zookeeper, at=2) as (proxy, met):
        done = calm(replace(zk_settings, hosts=proxy.hosts + chroot)).perform(operation)
    assert (len(met) > 2, sorted(row.name for row in done.rows)) == (True, names)
    assert {*names} <= load_world(world).roles.keys()


@pytest.mark.parametrize("value", [{"a": 1}, [], None, {"barclamp": []}, {"barclamp": {"name": "b"}, "roles": [1]}])
def test_a_document_that_a_client_sends_without_its_faults_is_judged_again(
    world: Session, zk_settings: ZooKeeperSettings, value: Json
) -> None:
    sent = BarclampFile(Document("sent.yml", value, ()))
    answer = calm(zk_settings).perform(BarclampImport(files=(sent,))).answer
    assert (answer.roles, any("sent.yml" in each for each in answer.problems)) == ((), True)
    assert "b" not in load_world(world).roles
