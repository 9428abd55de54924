"""Images on the command line: what is shown, asked for, waited for, deleted and moved."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.records import Change, Create, Delete, ImageSettings, Json
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server
from nodepool_ocb.views.times import shown
from tests.cli.background_command import COMMAND, Later
from tests.cli.images.page_server import PageServer
from tests.cli.images.played_builder import HOST, Builder
from tests.cli.shells.offering import offered
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
Until = Callable[..., None]
READY, FAILED, BUILDING = BuildState.READY, BuildState.FAILED, BuildState.BUILDING


# -- looking --


def test_list_shows_the_newest_ready_build_and_counts_the_others(builder: Builder, ask: Ask, ocb: Ocb) -> None:
    builder.made(READY, formats=("raw",))
    newest = builder.made(READY, formats=("qcow2", "raw"))
    builder.uploads(newest, "west")
    builder.uploads(newest, "east", UploadState.FAILED)
    builder.made(FAILED)
    row = ask("image", "list")[0]
    assert (row["name"], row["build"], row["formats"]) == ("jammy", newest, ["qcow2", "raw"])
    assert row["builds"] == {"ready": 2, "failed": 1}
    assert (row["uploads"], row["failures"]) == ({"ready": 1, "all": 2}, 1)
    table = ocb("image", "list").stdout
    assert "1 failed, 2 ready" in table
    assert "1/2" in table


def test_a_build_that_nobody_works_on_is_shown_as_aborted(builder: Builder, ask: Ask) -> None:
    id = builder.begins()
    assert ask("image", "list")[0]["builds"] == {"building": 1}
    assert ask("image", "list")[0]["builder"] == HOST
    builder.dies()
    shown = ask("image", "show", "jammy")["builds"][0]
    assert (shown["build"], shown["state"]) == (id, "aborted")
    assert "does not work on it any more" in shown["reason"]


def test_show_tells_when_the_next_attempt_comes(builder: Builder, ask: Ask, ocb: Ocb) -> None:
    now = time.time()
    builder.made(FAILED, state_time=now)
    builder.made(FAILED, state_time=now, reason="exit status 3")
    document = ask("image", "show", "jammy")
    assert document["failures"] == 2
    assert document["next_attempt"] == pytest.approx(now + 120.0)
    assert shown(now + 120.0) in ocb("image", "show", "jammy").stdout
    ask("image", "build", "jammy")
    assert ask("image", "show", "jammy")["next_attempt"] is None  # a request that no attempt has seen does not wait


def test_watch_gives_one_object_a_line(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    command = [*COMMAND, "--zookeeper", zk_settings.hosts, "image", "list", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["builds"] == {}
        Builder(builder.session, "noble")
        assert json.loads(watching.stdout.readline())["name"] == "noble"
        builder.session.commit([Delete(paths.builds("noble"), 0), Delete(paths.image("noble"), 0)])
        assert json.loads(watching.stdout.readline()) == {"name": "noble", "builds": None}
        watching.send_signal(signal.SIGINT)
    assert watching.returncode == 130


@pytest.mark.parametrize(
    "line",
    [
        "image list", "image show jammy", "image build jammy", "image pause jammy --for 1h", "image unpause jammy",
        "image log jammy", "image export", "image delete jammy --yes --force", "upload list", "lock list", "status",
        "daemon list", "upload delete jammy READY west --yes --force",
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["json", "yaml", "name", "table"])
def test_every_command_answers_in_every_form(builder: Builder, ocb: Ocb, line: str, form: str) -> None:
    builder.made(FAILED, reason="no space")
    ready = builder.made(READY, formats=("raw",), tail="the end\n")
    builder.uploads(ready, "west")
    builder.uploads(ready, "east", UploadState.FAILED)
    answer = ocb(*line.replace("READY", ready).split(), "-o", form)
    assert answer.exit_code == 0, answer.output
    if form == "json":
        json.loads(answer.stdout)


@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        ("image show jamy", 3, "did you mean `jammy`?"),
        ("image build jamy --wait", 3, "did you mean `jammy`?"),
        ("image log jamy", 3, "did you mean `jammy`?"),
        ("image pause jamy", 3, "did you mean `jammy`?"),
        ("image export jamy", 3, "did you mean `jammy`?"),
        ("image delete jamy --yes", 3, "did you mean `jammy`?"),
        ("image log jammy 77", 3, "has no build 77"),
        ("image log empty", 3, "was never built"),
        ("image log jammy -f -o json", 2, "leave -o away"),
        ("image delete jammy --force", 2, "--yes"),
        ("image delete jammy --build 1", 2, "which is being built"),
        ("image delete jammy --build 0 --yes", 4, "only ready build"),
        ("image pause jammy --for 1h --until 2100-01-01", 2, "contradict"),
        ("image pause jammy --for soon", 2, "90m"),
        ("image pause jammy --until yesterday", 2, "2026-01-31T18:00"),
        ("image pause jammy --until 2001-01-01", 2, "is in the past"),
        ("image shwo jammy", 2, "did you mean `show`?"),
        ("image import /nowhere.json", 1, "nowhere.json"),
    ],
)
def test_refusals(builder: Builder, ocb: Ocb, line: str, exit_code: int, said: str) -> None:
    builder.session.ensure(paths.builds("empty"))
    builder.made(READY)
    building = builder.begins()
    first = builder.view().builds[0].id
    words = [{"0": first, "1": building}.get(word, word) for word in line.split()]
    answer = ocb(*words)
    assert answer.exit_code == exit_code, answer.output
    assert said in answer.stderr
    assert "Traceback" not in answer.output


@pytest.mark.usefixtures("ocb")
def test_completion_offers_images_and_their_builds(builder: Builder) -> None:
    assert builder.image == "jammy"
    build = builder.made(READY)
    assert offered("image show j") == ["jammy"]
    assert offered("image log jammy ") == [build]


def test_status_locks_and_daemons_show_builders_work(builder: Builder, ask: Ask, ocb: Ocb) -> None:
    ready = builder.made(READY)
    builder.uploads(ready, "east", UploadState.FAILED, reason="quota")
    builder.uploads(ready, "west", UploadState.UPLOADING)
    builder.locks_upload(ready, "west")
    builder.made(FAILED, reason="no space")
    builder.begins()
    builder.registers("127.0.0.1:1")
    images = ask("status")["images"]
    assert images["builds"] == {"ready": 1, "failed": 1, "building": 1}
    assert images["uploads"] == {"failed": 1, "uploading": 1}
    assert [each["reason"] for each in (*images["failing"], *images["failed_uploads"])] == ["no space", "quota"]
    assert images["building"][0]["builder"] == HOST
    words = ocb("status").stdout
    assert words.index("IMAGES THAT FAIL") < words.index("UPLOADS THAT FAILED") < words.index("IMAGES: 1")
    locks = ask("lock", "list")
    assert [(lock["kind"], lock["name"], lock["host"]) for lock in locks] == [
        ("image", "jammy", HOST),
        ("upload", f"jammy-{ready} west", HOST),
    ]
    assert [(each["kind"], each["pages"]) for each in ask("daemon", "list")] == [("builder", "127.0.0.1:1")]


def test_a_builder_whose_registration_cannot_be_read_is_named(builder: Builder, ocb: Ocb, ask: Ask) -> None:
    path = paths.daemon("builder", "another")
    builder.registers()
    builder.session.commit([Create(path, ["no", "record"], ephemeral=True)])
    assert [each["path"] for each in ask("status")["quarantined"]] == [path]
    assert [each["kind"] for each in ask("status")["daemons"]] == ["builder"]
    listed = ocb("daemon", "list", "-o", "name")
    assert listed.stdout.split() == [builder.id]
    assert f"cannot be read: {path}: " in listed.stderr


def test_a_record_that_cannot_be_read_is_told_and_stops_nothing(builder: Builder, ocb: Ocb, ask: Ask) -> None:
    builder.made(READY)
    builder.session.commit([Create(paths.build("jammy", "0000000777"), ["no", "record"])])
    answer = ocb("image", "list", "-o", "json")
    assert json.loads(answer.stdout)[0]["builds"] == {"ready": 1}
    assert "0000000777 is left out" in answer.stderr
    assert [each["path"] for each in ask("status")["quarantined"]] == [paths.build("jammy", "0000000777")]


def test_an_image_that_no_builder_can_build_is_named_with_the_reason(builder: Builder, ocb: Ocb, ask: Ask) -> None:
    reason = "sudo is not installed"
    builder.registers(images={"jammy": ImageSettings(formats=("raw",), cannot=reason)})
    assert ask("image", "show", "jammy")["cannot_build"] == f"{HOST}: {reason}"
    assert reason in ocb("image", "show", "jammy").stdout
    assert ask("status")["images"]["unbuildable"] == [{"image": "jammy", "reason": f"{HOST}: {reason}"}]
    assert "IMAGES THAT NO BUILDER CAN BUILD" in ocb("status").stdout
    sentence = f"no running builder can build jammy: {HOST}: {reason}"
    assert sentence in ocb("image", "build", "jammy").stderr
    assert sentence in ocb("image", "build", "jammy", "--wait", "--timeout", "0.5").stderr


def test_a_request_for_an_image_in_no_configuration_is_named(builder: Builder, ocb: Ocb, ask: Ask) -> None:
    builder.registers(images={"noble": ImageSettings(formats=("raw",), digest="1")})
    answer = ocb("image", "build", "jammy")
    assert "no running builder has it in its configuration" in answer.stderr
    assert [each["image"] for each in ask("status")["images"]["unbuildable"]] == ["jammy"]


def test_an_image_that_was_removed_from_the_configuration_leaves_the_list(builder: Builder, ask: Ask) -> None:
    assert [each["name"] for each in ask("image", "list")] == ["jammy"]
    builder.registers(images={"noble": ImageSettings(formats=("raw",), digest="1")})
    assert ask("image", "list") == []
    builder.made(FAILED)
    assert [each["name"] for each in ask("image", "list")] == ["jammy"]


# -- asking --


def test_each_request_has_a_number_of_its_own(builder: Builder, ask: Ask) -> None:
    first = ask("image", "build", "jammy", "--reason", "new kernel")
    assert first["changes"][0]["kind"] == "build request"
    second = ask("image", "build", "jammy", "--reason", "newer kernel")
    assert first["request"] < second["request"]
    standing = builder.view().request
    assert standing is not None
    assert (standing.mzxid, standing.record.reason) == (second["request"], "newer kernel")


def test_a_pause_holds_for_as_long_as_it_says(builder: Builder, ask: Ask) -> None:
    ask("image", "pause", "jammy", "--reason", "freeze", "--for", "1h")
    pause = builder.view().pause
    assert pause is not None
    assert pause.record.until == pytest.approx(time.time() + 3600, abs=60)
    ask("image", "pause", "jammy", "--until", "2100-01-31T18:00Z")
    assert ask("image", "list")[0]["pause"]["until"] == 4105101600.0
    assert ask("image", "unpause", "jammy")["changes"][0]["change"] == "delete"
    assert ask("image", "unpause", "jammy")["changes"] == []
    assert builder.view().pause is None


@pytest.mark.usefixtures("builder")
def test_why_it_is_paused_and_asked_for_is_shown(ocb: Ocb) -> None:
    ocb("image", "pause", "jammy", "--reason", "freeze", "--for", "1h")
    ocb("image", "build", "jammy", "--reason", "new kernel")
    shown = ocb("image", "show", "jammy").stdout
    assert "left: freeze" in shown
    assert "ago: new kernel" in shown


@pytest.mark.usefixtures("builder")
def test_a_pause_in_the_configuration_is_shown(ocb: Ocb, ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "nodepool.yaml").write_text("diskimages: [{name: jammy, formats: [raw], pause: true}]\n")
    (tmp_path / "ocb.yaml").write_text("")
    config = ("--config", str(tmp_path / "ocb.yaml"))
    assert ask("image", "list", *config)[0]["paused_in"] == str(tmp_path / "nodepool.yaml")
    assert "in nodepool.yaml" in ocb("image", "list", *config).stdout
    answer = ocb("image", "build", "jammy", *config)
    assert f"jammy is paused in {tmp_path}/nodepool.yaml" in answer.stderr
    (tmp_path / "nodepool.yaml").write_text("diskimages: [{nome: jammy}]\n")
    assert ask("image", "list", *config)[0]["paused_in"] is None


def test_where_there_is_nothing_and_no_builder_the_list_says_so(ocb: Ocb) -> None:
    assert "no builder is running" in ocb("image", "list").stderr


def test_a_narrow_terminal_folds_no_heading_and_no_id(builder: Builder, zk_settings: ZooKeeperSettings) -> None:
    builder.ends(builder.begins(), READY)
    environment = {**os.environ, "TERM": "dumb", "COLUMNS": "80", "NO_COLOR": "1"}
    ours, theirs = pty.openpty()
    command = [*COMMAND, "--zookeeper", zk_settings.hosts, "image", "list"]
    subprocess.run(command, stdout=theirs, env=environment, check=True)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # at its end
        while part := os.read(ours, 10_000):
            shown += part
    os.close(ours)
    heading, row = shown.decode().splitlines()
    assert heading.split() == ["NAME", "BUILD", "SINCE", "BUILDS", "FAILURES"]
    assert row.split()[:2] == ["jammy", "0000000001"]


# -- waiting --


def _waits(builder: Builder, ocb: Ocb, until: Until, *more: str) -> Later:
    """`image build --wait`, once its request is there."""
    before = builder.view().request
    waiting = Later(lambda: ocb("image", "build", builder.image, "--wait", "--timeout", "30", "-o", "json", *more))
    until(lambda: (now := builder.view().request) is not None and now != before)
    return waiting


def test_wait_ends_with_the_build_that_was_asked_for(builder: Builder, ocb: Ocb, until: Until) -> None:
    builder.registers()
    old = builder.begins()  # under way already: it does not count
    waiting = _waits(builder, ocb, until)
    builder.ends(old, READY)
    new = builder.begins()
    builder.ends(new, READY, formats=("raw",))
    answer = waiting.result()
    assert answer.exit_code == 0, answer.output
    document = json.loads(answer.stdout)
    assert (document["outcome"], document["build"]["build"], document["build"]["formats"]) == ("ready", new, ["raw"])


def test_wait_ends_with_the_failure_and_the_end_of_the_log(builder: Builder, ocb: Ocb, until: Until) -> None:
    waiting = _waits(builder, ocb, until)
    builder.ends(builder.begins(), FAILED, reason="exit status 3", tail="mounting\n\x1b[31mno space left\x1b[0m\n")
    answer = waiting.result()
    assert answer.exit_code == 6
    assert json.loads(answer.stdout)["outcome"] == "failed"
    assert "failed: exit status 3" in answer.stderr
    assert "| no space left" in answer.stderr
    assert answer.stderr.count("no builder is running") == 1


def test_wait_outlives_an_aborted_build_and_ends_with_the_next(
    builder: Builder, ocb: Ocb, until: Until, zk_session: Session
) -> None:
    waiting = _waits(builder, ocb, until)
    builder.begins()
    builder.dies()
    other = Builder(zk_session, host="other.example.com")
    new = other.begins()
    other.ends(new, READY)
    answer = waiting.result()
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["build"]["builder"] == "other.example.com"


def test_wait_is_content_with_a_build_for_a_later_request(builder: Builder, ocb: Ocb, until: Until) -> None:
    waiting = _waits(builder, ocb, until)
    ocb("image", "build", "jammy")
    builder.ends(builder.begins(), READY)
    assert waiting.result().exit_code == 0


def test_wait_ends_at_once_where_the_image_is_paused(builder: Builder, ocb: Ocb) -> None:
    ocb("image", "pause", "jammy", "--reason", "freeze")
    answer = ocb("image", "build", "jammy", "--wait", "--timeout", "30", "-o", "json")
    assert answer.exit_code == 6
    assert "has paused jammy: freeze" in answer.stderr
    assert json.loads(answer.stdout)["outcome"] == "paused"
    assert builder.view().request is not None


def test_wait_bears_a_pause_that_ends(builder: Builder, ocb: Ocb, until: Until) -> None:
    ocb("image", "pause", "jammy", "--for", "1h")
    waiting = _waits(builder, ocb, until)
    ocb("image", "unpause", "jammy")
    builder.ends(builder.begins(), READY)
    answer = waiting.result()
    assert answer.exit_code == 0


def test_wait_ends_when_the_request_is_withdrawn(builder: Builder, ocb: Ocb, until: Until) -> None:
    waiting = _waits(builder, ocb, until)
    builder.session.commit([Delete(paths.request_build("jammy"), 0)])
    answer = waiting.result()
    assert answer.exit_code == 6
    assert "the request is gone" in answer.stderr


def test_wait_ends_when_the_image_is_deleted(builder: Builder, ocb: Ocb, until: Until) -> None:
    waiting = _waits(builder, ocb, until)
    gone = (paths.request_build("jammy"), paths.builds("jammy"), paths.image("jammy"))
    builder.session.commit([Delete(path, 0) for path in gone])
    assert waiting.result().exit_code == 3


def test_wait_times_out(builder: Builder, ask: Ask, ocb: Ocb) -> None:
    document = ask("image", "build", "jammy", "--wait", "--timeout", "0.3", exit_code=5)
    assert (document["outcome"], document["build"]) == ("timeout", None)
    builder.begins()
    assert ocb("image", "build", "jammy", "--wait", "--timeout", "0.3").stderr.count("no builder is running") == 1


def test_wait_outlives_an_outage_of_zookeeper(builder: Builder, zookeeper: Server, chroot: str) -> None:
    builder.registers()
    with Proxy(zookeeper.port) as proxy:
        command = [*COMMAND, "--zookeeper", proxy.hosts + chroot, "image", "build", "jammy", "--wait", "-o", "name"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout is not None
            assert waiting.stderr is not None
            assert "waiting for a builder to begin" in waiting.stderr.readline()
            proxy.cut()
            id = builder.begins()
            builder.ends(id, READY)
            proxy.heal()
            assert waiting.stdout.read() == f"{id}\n"
            assert waiting.stderr.read() in ("", "ZooKeeper does not answer; waiting for it\n")
    assert waiting.returncode == 0


def test_a_failure_from_before_the_request_says_nothing(builder: Builder, ocb: Ocb, until: Until) -> None:
    builder.ends(builder.begins(), FAILED)
    waiting = _waits(builder, ocb, until)
    builder.ends(builder.begins(), READY)
    assert waiting.result().exit_code == 0


def test_wait_shows_a_line_that_moves_on_a_terminal(
    builder: Builder, pages: PageServer, zk_settings: ZooKeeperSettings, until: Until
) -> None:
    builder.registers(pages.address, certificate=pages.certificate)
    ours, theirs = pty.openpty()
    command = [*COMMAND, "--zookeeper", zk_settings.hosts, "image", "build", "jammy", "--wait", "-o", "json"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True) as waiting:
        os.close(theirs)
        assert waiting.stdout is not None
        until(lambda: builder.view().request is not None)
        id = builder.begins()
        pages.write(f"jammy-{id}", "mounting\ninstalling \x1b[31mpackages\x1b[0m\n\n")
        shown = b""
        while b"| installing packages" not in shown:
            shown += os.read(ours, 65536)
        builder.ends(id, READY)
        document = json.loads(waiting.stdout.read())
    os.close(ours)
    assert f"{HOST} makes build {id}".encode() in shown
    assert (document["outcome"], waiting.returncode) == ("ready", 0)


# -- deleting --


def test_delete_marks_builds_and_keeps_the_last_ready_one(builder: Builder, ask: Ask, ocb: Ocb) -> None:
    first, second = builder.made(READY), builder.made(READY)
    failed, building = builder.made(FAILED), builder.begins()
    assert ask("image", "delete", "jammy", "--build", first, "--dry-run", exit_code=10)["changes"]
    ask("image", "delete", "jammy", "--build", str(int(first)), "--yes")
    assert builder.build_view(first).record.state is BuildState.DELETE
    refused = ocb("image", "delete", "jammy", "--yes")
    assert refused.exit_code == 4
    assert "--force" in refused.stderr
    answer = ocb("image", "delete", "jammy", "--yes", "--force", "-o", "json")
    going = {f"jammy-{id}" for id in (second, failed, building)}
    assert {row["name"] for row in json.loads(answer.stdout)["changes"]} == going
    assert ask("image", "delete", "jammy", "--yes")["changes"] == []


def test_two_who_delete_at_once_leave_a_ready_build(
    builder: Builder, ocb: Ocb, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = builder.made(READY), builder.made(READY)
    commit, session = Session.commit, builder.session

    def late(self: Session, changes: Sequence[Change]) -> object:
        if self is not session and builder.build_view(second).record.state is READY:
            builder.sets(second, state=BuildState.DELETE)
        return commit(self, changes)

    monkeypatch.setattr(Session, "commit", late)
    assert ocb("image", "delete", "jammy", "--build", first, "--yes").exit_code == 4
    assert builder.build_view(first).record.state is READY


def test_a_build_that_changes_while_the_question_is_asked_is_not_deleted(
    builder: Builder, ocb: Ocb, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder.made(BuildState.READY)
    other = builder.made(BuildState.FAILED)
    monkeypatch.setattr(
        "nodepool_ocb.cli.kit.performing.confirm", lambda *_: builder.sets(other, state=BuildState.READY)
    )
    refused = ocb("image", "delete", "jammy", "--build", other)
    assert refused.exit_code == 4
    assert f"jammy-{other} was failed, and is ready now; see: nodepool-ocb image show jammy" in refused.stderr
    assert builder.build_view(other).record.state is BuildState.READY


# -- moving --


def test_records_move_from_one_zookeeper_to_another(
    builder: Builder, ask: Ask, ocb: Ocb, tmp_path: Path, zk_settings: ZooKeeperSettings
) -> None:
    for _ in range(3):
        builder.made(FAILED)
    ready = builder.made(READY, formats=("raw",), unknown={"colour": "red"}, metadata={"a": "b"})
    builder.uploads(ready, "west", external_id="x-1")
    builder.begins()
    file = tmp_path / "images.json"
    exported = ocb("image", "export", "jammy")
    assert "left out: 1 build that is under way" in exported.stderr
    file.write_text(exported.stdout)
    before = {build.id: build for build in builder.view().builds if build.record.state is not BUILDING}
    hosts = ("--zookeeper", f"{zk_settings.hosts}-copy")
    ask("init", *hosts)
    assert ask("image", "import", str(file), "--dry-run", *hosts, exit_code=10)["changes"]
    assert ask("image", "import", str(file), *hosts)["changes"]
    assert ask("image", "import", str(file), *hosts)["changes"] == []
    assert ask("image", "export", *hosts) == json.loads(exported.stdout)
    with Session(ZooKeeperSettings(hosts=hosts[1])) as session:
        copy = Builder(session)
        assert {build.id: build.record for build in copy.view().builds} == {
            id: build.record for id, build in before.items()
        }
        assert copy.made(READY) > max(before)
        assert copy.uploads(ready, "west") > before[ready].uploads[0].id
        assert session.children(paths.image("jammy")) == ["builds"]
    refused = ocb("image", "import", str(file), *hosts)
    assert refused.exit_code == 4
    assert "is not in the document" in refused.stderr


NODEPOOLS = {
    "/nodepool/images/focal/pause": "",
    "/nodepool/images/focal/builds/0000000002": (
        '{"state": "ready", "state_time": 1700000000.5, "builder": "nb01", "builder_id": "8b1c", "formats": "qcow2,raw",'
        ' "username": "zuul", "python_path": "auto", "shell_type": null}'
    ),
    "/nodepool/images/focal/builds/0000000002/providers/west/images/0000000001": (
        '{"state": "ready", "state_time": 1700000100.0, "external_id": "406a9bd0", "external_name": "focal-1700000000",'
        ' "format": "qcow2", "username": "zuul", "python_path": "auto", "shell_type": null}'
    ),
    "/nodepool/images/focal/builds/0000000002/providers/west/images/0000000002": (
        '{"state": "uploading", "state_time": 1700000200.0, "external_id": null, "external_name": null, "format": "raw"}'
    ),
    "/nodepool/images/focal/builds/0000000003": '{"state": "building", "state_time": 1700000300.0, "builder": "nb01"}',
}


def test_what_nodepool_exported_is_taken_over(ocb: Ocb, ask: Ask, zk_session: Session, tmp_path: Path) -> None:
    file = tmp_path / "nodepool.json"
    file.write_text(json.dumps(NODEPOOLS))
    for _ in range(2):  # once more changes nothing
        assert ocb("image", "import", str(file)).exit_code == 0
    shown = ask("image", "show", "focal")
    (build,) = shown["builds"]
    assert (build["build"], build["state"], build["removed"]) == ("0000000002", "ready", ["qcow2", "raw"])
    assert "nodepool" in json.dumps(shown["pause"])
    (upload,) = ask("upload", "list", "--image", "focal")
    assert (upload["provider"], upload["upload"], upload["external_id"]) == ("west", "0000000001", "406a9bd0")
    Builder(zk_session, "focal").registers(providers=("west",))
    line = ("upload", "delete", "focal", "2", "west", "--forget", "--force", "--yes")
    assert ocb(*line).exit_code == 0, "no builder can delete it, for it bears no stamp"
    assert ask("upload", "list", "--image", "focal") == []


def test_a_bad_document_of_nodepool_is_refused_whole(ocb: Ocb, ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "nodepool.json"
    bad = {"/nodepool/images/focal/builds/0000000004": "{", "/nodepool/images/focal/odd": ""}
    file.write_text(json.dumps(NODEPOOLS | bad))
    refused = ocb("image", "import", str(file))
    assert refused.exit_code == 1
    for path in bad:
        assert path in refused.stderr
    assert ask("image", "list") == []


def test_import_of_what_differs_writes_nothing(builder: Builder, ask: Ask, ocb: Ocb, tmp_path: Path) -> None:
    ready = builder.made(READY)
    document = ask("image", "export")
    document["images"]["jammy"]["builds"][ready]["builder"] = "elsewhere"
    document["images"]["noble"] = {"builds": {}}
    document["images"]["noble"]["builds"]["0000000001"] = document["images"]["jammy"]["builds"][ready]
    file = tmp_path / "images.json"
    file.write_text(json.dumps(document))
    answer = ocb("image", "import", str(file))
    assert answer.exit_code == 4
    assert "is not the same in the document" in answer.stderr
    assert [row["name"] for row in ask("image", "list")] == ["jammy"]


FINE = {"schema": 1, "builder": "b", "builder_id": "i", "filename": "f", "state": "ready", "state_time": 1.0}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("nonsense", "no document of image export"),
        ({"schema": 2, "images": {}}, "no document of image export"),
        ({"schema": 1, "images": {"../x": {"builds": {}}}}, "cannot be the name of an image"),
        ({"schema": 1, "images": {"..": {"builds": {}}}}, "cannot be the name of an image"),
        ({"schema": 1, "images": {"a": {"builds": {"7": FINE}}}}, "ten digits"),
        ({"schema": 1, "images": {"a": {"builds": {"0000000001": {}}}}}, "not a Build"),
        ({"schema": 1, "images": {"a": {"builds": {"0000000001": {**FINE, "state": "building"}}}}}, "leave it out"),
        ({"schema": 1, "images": {"a": {"builds": {"0000000001": {**FINE, "uploads": []}}}}}, "uploads"),
        ({"schema": 1, "images": {"a": {"builds": {"0000000001": {**FINE, "uploads": {"w/x": {}}}}}}}, "a provider"),
        ({"schema": 1, "images": {"a": {"builds": {"0009000001": FINE}}}}, "above those that were given"),
    ],
)
@pytest.mark.usefixtures("zk_session")
def test_a_bad_document_is_refused_whole(ocb: Ocb, ask: Ask, tmp_path: Path, document: Json, said: str) -> None:
    file = tmp_path / "images.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    answer = ocb("image", "import", str(file))
    assert answer.exit_code == 1, answer.output
    assert said in answer.stderr
    assert all(row["builds"] == {} for row in ask("image", "list"))
