"""The journal: what every verb that writes tells, in the transaction that it tells of; and how ``history`` shows it."""

from __future__ import annotations

import ast
import getpass
import json
import re
import shlex
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import pytest
from msgspec.structs import replace

from nodepool_ocb.cli.kit import walking
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import me, performer
from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Stale, Unavailable
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.records import Append, Change, Create, Json, Set
from nodepool_ocb.store import journal
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session, Stats
from nodepool_ocb.store.journal import Journaled
from nodepool_ocb.store.subtree import subtree
from nodepool_ocb.store.world.cache import Cache
from nodepool_ocb.store.world.load import load_world
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
N1, N2 = "n1.example.com", "n2.example.com"
ROOT = Path(__file__).parents[2]

#: What the walk does, in order: the first two words are the verb.
WALK = [
    "role delete other --yes", "barclamp import extra.yml", "barclamp delete extra --yes",
    "deployment set lab middle middle-size=3",
    "deployment unset lab middle middle-size --yes", "deployment create sub", "deployment delete sub --yes",
    f"node create {N2}", f"node set {N1} rack=r2", f"node move {N2} lab", f"node unavailable {N1}", f"node available {N1}",
    f"node dead {N1}", f"node alive {N1}", f"node rename {N2} n3.example.com", "node delete n3.example.com --yes",
    f"node bind {N1} leaf", f"noderole unbind leaf@{N1} --yes", f"noderole set middle@{N1} middle-size=2",
    f"noderole unset middle@{N1} middle-size", "deployment commit lab --no-noderoles", f"noderole commit base@{N1}",
    f"noderole propose base@{N1}", f"node commit {N1}", "deployment propose lab",
    "image pause jammy", "image unpause jammy", "image build jammy", "record delete /ocb/roles/spoiled --yes",
    "tasks upload tasks.yaml --deployment lab", f"node bind {N1} leaf",
    "deployment commit lab --no-noderoles", "rollout start --default --deployment lab", "rollout cancel lab",
]  # fmt: skip


def entries(session: Session) -> list[Entry]:
    found = list(journal.read(session, journal.numbers(session)))
    assert all(read.entry for read in found), found
    return [read.entry for read in found if read.entry is not None]


def everything(session: Session) -> dict[str, int]:
    """Every znode, and what last changed it; but the clock, which is set to be read."""
    there = [znode for root in ("/ocb", "/nodepool") for znode in subtree(session, root)]
    return {znode.path: znode.mzxid for znode in there if znode.path not in (paths.CLOCK, paths.POOL_CLOCK)}


# -- what is noted --


def test_every_verb_that_writes_takes_a_reason() -> None:
    found = dict(walking.verbs(click.Context(cli)))
    for name, command in found.items():
        options = {option for parameter in command.params for option in parameter.opts}
        if options & {"--dry-run", "--yes"}:
            assert "--reason" in options, f"{name}: give its command writes=True"
    for line in WALK:
        command = found[" ".join(line.split()[:2])]
        assert isinstance(command, Verb)
        assert command.writes, f"{line}: give its command writes=True"


def test_every_verb_that_writes_takes_dry_run() -> None:
    for name, command in walking.verbs(click.Context(cli)):
        options = {option for parameter in command.params for option in parameter.opts}
        if getattr(command, "writes", False):
            assert "--dry-run" in options, f"{name}: show what it would change, with options.dry_run_option"


def test_no_command_opens_a_session_that_is_not_journaled() -> None:
    opened = [
        str(file.relative_to(ROOT))
        for folder in ("cli", "operations")
        for file in sorted((ROOT / "nodepool_ocb" / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) in ("Session", "Journaled")
    ]
    assert opened == ["nodepool_ocb/operations/performer.py"]


def test_each_kind_of_verb_writes_a_journal_entry(
    world: Session, ocb: Ocb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "extra.yml").write_text("barclamp: {name: extra, version: 1}\nroles: [{name: alone, jig: noop}]\n")
    (tmp_path / "leaf.yml").write_text("barclamp: {name: leaf, version: 1}\nroles: [{name: leaf, jig: noop}]\n")
    (tmp_path / "tasks.yaml").write_text("- {id: deploy, type: stage}\n")
    monkeypatch.chdir(tmp_path)
    world.ensure(paths.builds("jammy"))
    assert ocb("barclamp", "import", "leaf.yml").exit_code == 0
    for line in WALK:
        if line.startswith("record delete"):
            world.commit([Create(paths.role("spoiled"), {"schema": 1})])
        before, there = len(entries(world)), everything(world)
        answer = ocb(*line.removesuffix(" --yes").split(), "--dry-run")
        assert answer.exit_code == 10, (line, answer.output)
        assert everything(world) == there, f"{line} --dry-run changed something"
        answer = ocb(*line.split(), "--reason", "spring cleaning")
        assert answer.exit_code == 0, (line, answer.output)
        noted = entries(world)[before:]
        assert {(each.verb, each.reason) for each in noted} == {(" ".join(line.split()[:2]), "spring cleaning")}, line
        assert all(each.subjects and each.changes for each in noted), line
        assert [each.part for each in noted] == list(range(1, len(noted) + 1)), line
    first = entries(world)[0]
    assert (first.login, first.host) == (getpass.getuser(), socket.gethostname())


def test_a_change_is_noted_from_what_to_what_and_what_changes_nothing_is_not(
    world: Session, ocb: Ocb, ask: Ask
) -> None:
    before = len(entries(world))
    assert ocb("node", "set", N1, "rack=r1", "--dry-run").exit_code == 10
    assert ocb("node", "set", "n9.example.com", "rack=r1").exit_code == 3
    assert ocb("node", "list").exit_code == 0
    assert len(entries(world)) == before
    assert ocb("noderole", "set", f"middle@{N1}", "middle-size=7", "--reason", "more").exit_code == 0
    assert ocb("noderole", "set", f"middle@{N1}", "middle-size=8").exit_code == 0
    (noted,) = ask("history", "--limit", "1")
    assert noted["subjects"] == [f"middle@{N1} (user)"]
    assert noted["changes"][0]["fields"] == [{"field": "middle/size", "old": 7, "new": 8}]
    line = ocb("history", "--limit", "2").stdout.splitlines()
    assert "(middle/size: - -> 7)" in line[1]
    assert line[1].endswith("more")
    assert "(middle/size: 7 -> 8)" in line[2]


def test_what_is_done_elsewhere_than_in_a_transaction_is_noted_once(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    before = len(entries(world))
    with (
        click.Context(click.Command("acl"), info_name="acl", parent=click.Context(cli, info_name="ocb")),
        Journaled(zk_settings, performer().journal.entry, noted=performer().journal.written) as session,
    ):
        performer().journal.done(session, "change", "rights", ["/ocb"])
    assert [(each.verb, each.subjects) for each in entries(world)[before:]] == [("acl", ("/ocb",))]


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_a_user_without_a_name_on_this_host_is_recorded_as_unknown(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def getuser() -> str:
        raise error("no such user")

    monkeypatch.setattr(getpass, "getuser", getuser)
    assert me() == "unknown"


def test_what_was_refused_and_decided_again_is_no_part_of_a_command(
    world: Session, ocb: Ocb, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, refused = Session.commit, [Stale("moved on", "/x")]

    def refusing(self: Session, changes: Sequence[Change]) -> Stats:
        if refused:
            raise refused.pop()
        return commit(self, changes)

    monkeypatch.setattr(Session, "commit", refusing)
    assert ocb("node", "set", N1, "rack=r9").exit_code == 0
    assert refused == []
    assert (entries(world)[-1].verb, entries(world)[-1].part) == ("node set", 1)


def test_of_a_change_that_is_too_long_for_an_entry_as_much_is_told_as_there_is_room_for(
    world: Session, ocb: Ocb
) -> None:
    assert ocb("node", "set", N1, *(f"labels.k{number:02}={'v' * 190}" for number in range(40))).exit_code == 0
    (effect,) = entries(world)[-1].changes
    assert effect.name == N1
    assert len(effect.fields) >= 10
    assert len(effect.fields) + effect.more == 40
    assert entries(world)[-1].left_out == 0
    assert f"; {effect.more} more)" in ocb("history").stdout


def test_a_refused_transaction_leaves_no_entry_and_a_full_one_has_room_for_it(
    zk_settings: ZooKeeperSettings, zk_session: Session
) -> None:
    full: list[Create | Set] = [Create(f"/many{n}", {"n": n}) for n in range(limits.TRANSACTION_CHANGES)]
    note = Entry(at=1.0, login="l", host="h", verb="v", reason="x" * 3000)
    with Journaled(zk_settings, lambda *_: note) as session:
        assert len(session.commit(full)) == len(full)
        with pytest.raises(Exception, match="exists already"):
            session.commit(full)
        large = Create("/large", {"text": "x" * (limits.BLOB_BYTES - 500)})
        session.commit([large])
    assert len(entries(zk_session)) == 2


def test_a_cluster_that_is_older_than_the_journal_gets_one(zk_settings: ZooKeeperSettings, zk_session: Session) -> None:
    zk_session._client.delete(paths.JOURNAL, recursive=True)
    with Journaled(zk_settings, lambda *_: Entry(at=1.0, login="l", host="h", verb="v")) as session:
        session.commit([Create("/thing")])
    assert len(entries(zk_session)) == 1


# -- bounded --


def test_two_who_write_at_once_lose_no_entry_and_the_oldest_go(
    zk_settings: ZooKeeperSettings, zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ENTRIES", 100)
    monkeypatch.setattr(limits, "ENTRIES_LEFT", 90)
    _write(zk_settings, writers=4, each=50)
    kept = journal.numbers(zk_session)
    assert kept == list(range(kept[0], 200)), "200 were written, and what is left are the newest"
    assert 90 <= len(kept) < 100 + 4, "of four the last may have written at the same moment, and none saw the others"
    _write(zk_settings, writers=1, each=1, begin=4)
    kept = journal.numbers(zk_session)
    assert kept == list(range(kept[0], 201))
    assert 90 <= len(kept) <= 100


def test_a_writer_of_a_surplus_entry_deletes_the_oldest_and_ignores_failures_of_the_deletion(
    zk_settings: ZooKeeperSettings, zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ENTRIES", 10)
    monkeypatch.setattr(limits, "ENTRIES_LEFT", 5)
    with Journaled(zk_settings, lambda *_: Entry(at=1.0, login="l", host="h", verb="v")) as session:
        for number in range(10):
            session.commit([Create(f"/thing-{number}")])
        journal.trim(session)
        assert journal.numbers(session) == [*range(10)]
        with monkeypatch.context() as patch:
            patch.setattr(session, "children", _unavailable)
            assert len(session.commit([Create("/thing-10")])) == 1
        assert journal.numbers(session) == [*range(11)]
        session.commit([Create("/thing-11")])
    assert journal.numbers(zk_session) == [*range(7, 12)]
    zk_session.commit([Create(f"{paths.JOURNAL_ENTRIES}/by-hand")])
    assert journal.numbers(zk_session) == [*range(7, 12)]


def test_an_entry_that_was_written_again_by_hand_is_deleted_with_the_oldest(
    zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ENTRIES", 3)
    monkeypatch.setattr(limits, "ENTRIES_LEFT", 2)
    for _ in range(3):
        zk_session.commit([Append(paths.JOURNAL_ENTRIES, Entry(at=1.0, login="l", host="h", verb="v"))])
    zk_session.commit([Set(paths.entry(1), {"by": "hand"}, 0)])
    journal.write(zk_session, Entry(at=1.0, login="l", host="h", verb="v"))
    assert journal.numbers(zk_session) == [2, 3]


def test_the_bound_is_held_by_the_entry_that_would_pass_it(
    zk_settings: ZooKeeperSettings, zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ENTRIES", 3)
    monkeypatch.setattr(limits, "ENTRIES_LEFT", 2)
    counts = []
    with Journaled(zk_settings, lambda *_: Entry(at=1.0, login="l", host="h", verb="v")) as session:
        for number in range(6):
            session.commit([Create(f"/thing-{number}")])
            counts.append(len(journal.numbers(zk_session)))
    assert counts == [1, 2, 3, 2, 3, 2]


def _unavailable(_: str) -> list[str]:
    raise Unavailable("it is away")


@pytest.mark.long
def test_the_journal_stays_within_its_bound_after_ten_thousand_changes(
    zk_settings: ZooKeeperSettings, zk_session: Session
) -> None:
    _write(zk_settings, writers=4, each=2500)
    kept = journal.numbers(zk_session)
    assert kept[-1] == 9999
    assert limits.ENTRIES_LEFT <= len(kept) <= limits.ENTRIES


def _write(settings: ZooKeeperSettings, writers: int, each: int, begin: int = 0) -> None:
    def write(writer: int) -> None:
        note = Entry(at=1.0, login=f"w{writer}", host="h", verb="v")
        with Journaled(settings, lambda *_: note) as session:
            for number in range(each):
                session.commit([Create(f"/thing-{writer}-{number}")])

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(begin, begin + writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300.0)
        assert not thread.is_alive()


def test_entries_wake_no_cache_and_are_read_by_no_load(zk_settings: ZooKeeperSettings, zk_session: Session) -> None:
    woken, seen = threading.Event(), threading.Event()
    cache = Cache(zk_session, load_world(zk_session), woken.set)
    cache.load()
    zk_session.watch(paths.JOURNAL, lambda *_: seen.set())
    with Journaled(zk_settings, lambda *_: Entry(at=1.0, login="l", host="h", verb="v")) as session:
        session.commit([Create("/elsewhere")])
    assert seen.wait(20.0), "the entry was made, and the watches were noted"
    assert not woken.is_set()
    read: list[str] = []
    monitored = zk_session.stream
    zk_session.stream = lambda wanted: monitored([read.append(path) or path for path in wanted])  # type: ignore[method-assign,func-returns-value]
    load_world(zk_session)
    assert read
    assert not [path for path in read if path.startswith(paths.JOURNAL)]


# -- history --


def test_history_is_of_names_people_verbs_and_times(world: Session, ocb: Ocb, ask: Ask) -> None:
    for line in (f"node create {N2}", f"node set {N2} rack=r1", f"noderole commit base@{N1}", "deployment create sub"):
        assert ocb(*line.split()).exit_code == 0

    def verbs(*asked: str) -> list[str]:
        return [each["verb"] for each in ask("history", *asked)]

    assert verbs(N2) == ["node create", "node set"]
    assert verbs(f"base@{N1}")[-1] == "noderole commit"
    assert verbs("sub") == ["deployment create"]
    assert verbs("--verb", "node set") == ["node set"]
    assert set(verbs("--verb", "node")) == {"node create", "node bind", "node set"}
    assert verbs("--by", "nobody-at-all") == []
    assert len(verbs("--by", getpass.getuser())) == len(verbs()) == len(entries(world))
    assert verbs("--since", "1h") == verbs()
    assert verbs("--since", "2999-01-01T00:00") == []
    assert verbs("--limit", "2") == ["noderole commit", "deployment create"]
    assert ocb("history", "--since", "soon").exit_code == 2


@pytest.mark.usefixtures("world")
def test_the_history_of_a_noderole_has_the_changes_of_its_role_in_its_deployments(ocb: Ocb) -> None:
    for line in (
        "deployment set lab middle middle-size=3",
        "deployment create other",
        "deployment commit lab --no-noderoles",
        "rollout start --default --deployment lab",
    ):
        assert ocb(*line.split()).exit_code == 0, line
    shown = ocb("history", f"middle@{N1}").stdout
    assert "user/middle/size: - -> 3" in shown
    assert "deployment commit" in shown
    assert "rollout start" in shown
    assert "create other" not in shown


@pytest.mark.usefixtures("world")
def test_the_moments_of_a_hold_are_shown_as_times(ocb: Ocb) -> None:
    assert ocb("node", "hold", N1, "--for", "2h", "--reason", "disk").exit_code == 0
    held = ocb("history", N1).stdout
    assert re.search(r"hold/until: - -> 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", held), held


def test_an_entry_without_room_for_all_names_is_said_to_be_perhaps_about_one(world: Session, ocb: Ocb) -> None:
    number = journal.numbers(world)[-1]
    world._client.set(paths.entry(number), codec.encode(replace(entries(world)[-1], more=9)))
    assert ocb("node", "create", N2).exit_code == 0
    answer = ocb("history", N2)
    first, last = answer.stdout.splitlines()[1:]
    assert ("(perhaps)" in first, "(perhaps)" in last) == (True, False)
    assert f"the entry names only some of its changes, and {N2} may be among the others" in answer.stderr
    assert [row.get("perhaps") for row in json.loads(ocb("history", N2, "-o", "json").stdout)] == [True, None]
    assert "(perhaps)" in ocb("events", "--after", "-1", N2).stdout
    assert "may be among" not in ocb("history", "--verb", "image").stderr
    gone = ocb("history", "n99.example.com")
    assert (gone.exit_code, "neither the cluster nor the journal has the name n99" in gone.stderr) == (0, True)
    assert "the journal has no such entry" in ocb("history", "--verb", "image").stderr


def test_what_nothing_knows_is_an_error_that_names_what_is_near_and_what_was_deleted_is_known(
    world: Session, ocb: Ocb
) -> None:
    for line in (f"node create {N2}", f"node delete {N2} --yes"):
        assert ocb(*line.split()).exit_code == 0
    assert ocb("history", N2, "base", f"base@{N1}", "lab").exit_code == 0
    for asked in (("history", "bsae"), ("events", "--since", "1h", "bsae")):
        wrong = ocb(*asked)
        assert (wrong.exit_code, "has the name bsae; did you mean `base`?" in wrong.stderr) == (3, True)
    assert ocb("history", "--verb", "image pause").exit_code == 0, "nobody did it yet"
    for word in ("refuse", "refuse file"):
        assert ocb("history", "--verb", word).exit_code == 0, "an annealer writes it; no entry has it yet"
    wrong = ocb("history", "--verb", "node sett")
    assert (wrong.exit_code, "there is no command 'node sett'; did you mean `node set`?" in wrong.stderr) == (2, True)
    noted = replace(entries(world)[-1], verb="web console")
    world.commit([Create(paths.entry(journal.numbers(world)[-1] + 1), noted)])
    assert ocb("history", "--verb", "web", "--by", "nobody").exit_code == 0, "the journal has it"


def test_an_entry_that_cannot_be_read_is_named_and_left_out(world: Session, ocb: Ocb, ask: Ask) -> None:
    numbers = journal.numbers(world)
    world._client.set(paths.entry(numbers[0]), b"\x1b[2J{oops")
    answer = ocb("history")
    assert answer.exit_code == 0
    assert paths.entry(numbers[0]) in answer.stderr
    assert "\x1b" not in answer.output
    assert len(ask("history")) == len(numbers) - 1


def test_the_page_about_history_works_as_printed(ocb: Ocb) -> None:
    block = (ROOT / "docs/history.md").read_text().split("```")[1]
    lines = [shlex.split(line, comments=True)[1:] for line in block.strip().splitlines()]
    assert len(lines) == 9
    for line in lines:
        answer = ocb(*line)
        assert answer.exit_code == 0, (line, answer.output)
    assert "was carried over" in ocb("history", "n7.example.com").stdout
