"""Task lists between files and ZooKeeper: checked, uploaded, downloaded, synced, shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb.cli.tasks.exchange import write
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json
from nodepool_ocb.store.client.session import Session
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]

NET = """\
- {id: deploy, type: stage}
- {id: net, type: shell, role: '*', required_for: [deploy], parameters: {cmd: ip link}}
"""
SITE = "- {id: site, type: shell, role: [web], requires: [net], required_for: [deploy], parameters: {cmd: 'true'}}\n"
OWN = "- {id: site, type: shell, role: [web], requires: [net], parameters: {cmd: 'false'}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "lists", {"net/tasks.yaml": NET, "site/deep/tasks.yaml": SITE})
    return tmp_path / "lists"


@pytest.fixture
def lab(ocb: Ocb) -> Ocb:
    """Deployment lab with nodes 1 and 2, both web."""
    assert ocb("deployment", "create", "lab").exit_code == 0
    for uid in ("1", "2"):
        made = ocb(
            "node", "create", f"n{uid}.example.com", "--deployment", "lab", "--tag", "web", "--label", f"uid={uid}"
        )
        assert made.exit_code == 0, made.output
    return ocb


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


# -- check --


def test_a_check_counts_what_is_there_and_asks_no_zookeeper(
    ocb: Ocb, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODEPOOL_OCB_ZOOKEEPER", "127.0.0.1:1")
    answer = ocb("tasks", "check", str(folder))
    assert answer.exit_code == 0, answer.output
    assert [line.split() for line in answer.stdout.splitlines()[1:]] == [["shell", "2"], ["stage", "1"]]


def test_a_check_tells_every_fault_with_its_place(ocb: Ocb, folder: Path) -> None:
    (folder / "net/tasks.yaml").write_text(NET.replace("role", "rolle").replace("ip link}", "}"))
    (folder / "site/deep/tasks.yaml").write_text(SITE.replace("[net]", "[nett]"))
    answer = ocb("tasks", "check", str(folder), "-o", "json")
    problems = json.loads(answer.stdout)["problems"]
    assert answer.exit_code == 1
    assert len(problems) > 1
    assert all(f"error: {problem}" in answer.stderr for problem in problems)
    assert any("did you mean `role`" in problem for problem in problems)


def test_a_check_over_a_release_knows_its_tasks(ocb: Ocb, folder: Path, tmp_path: Path) -> None:
    put(tmp_path, {"own.yaml": OWN})
    assert ocb("tasks", "upload", str(folder), "--release", "9.0").exit_code == 0
    assert ocb("tasks", "check", str(tmp_path / "own.yaml")).exit_code == 1
    answer = ocb("tasks", "check", str(tmp_path / "own.yaml"), "--release", "9.0")
    assert answer.exit_code == 0, answer.output


# -- upload and download --


def test_an_uploaded_list_comes_back_byte_by_byte(ocb: Ocb, folder: Path, tmp_path: Path) -> None:
    put(folder, {"net/tasks.yaml": f"# a comment, {chr(0x2603)}\n{NET}"})
    assert ocb("tasks", "upload", str(folder), "--release", "9.0").exit_code == 0
    answer = ocb("tasks", "download", "--release", "9.0", "--dir", str(tmp_path / "back"))
    assert answer.exit_code == 0, answer.output
    for name in ("net/tasks.yaml", "site/deep/tasks.yaml"):
        assert (tmp_path / "back" / name).read_bytes() == (folder / name).read_bytes()


def test_a_list_with_a_fault_is_not_stored(ocb: Ocb, ask: Ask, folder: Path) -> None:
    (folder / "site/deep/tasks.yaml").write_text(SITE.replace("[net]", "[nowhere]"))
    answer = ocb("tasks", "upload", str(folder), "--release", "9.0")
    assert (answer.exit_code, ask("tasks", "list")) == (1, [])
    assert "nowhere" in answer.stderr


def test_an_upload_that_changes_nothing_says_so_and_a_dry_run_writes_nothing(ocb: Ocb, ask: Ask, folder: Path) -> None:
    dry = ocb("tasks", "upload", str(folder), "--release", "9.0", "--dry-run")
    assert (dry.exit_code, ask("tasks", "list")) == (10, [])
    changes = [ask("tasks", "upload", str(folder), "--release", "9.0")[0]["change"] for _ in range(2)]
    assert changes == ["created", "unchanged"]
    assert ocb("tasks", "upload", str(folder), "--release", "9.0", "--dry-run").exit_code == 0


def test_a_deployments_own_entries_take_the_place_of_its_releases(
    lab: Ocb, ask: Ask, folder: Path, tmp_path: Path
) -> None:
    put(tmp_path, {"own.yaml": OWN, "settings.yaml": "a: {value: true}\n"})
    assert lab("tasks", "upload", str(folder), "--release", "9.0").exit_code == 0
    stored = lab("tasks", "upload", str(tmp_path / "own.yaml"), "--deployment", "lab", "--base", "9.0")
    assert stored.exit_code == 0, stored.output
    assert lab("tasks", "upload", "--deployment", "lab", "--settings", str(tmp_path / "settings.yaml")).exit_code == 0
    site, net = (ask("tasks", "show", each, "--deployment", "lab") for each in ("site", "net"))
    assert (site["origin"], site["parameters"]["cmd"], site["after"]) == ("deployment lab", "false", ["net"])
    assert (net["origin"], net["before"]) == ("release 9.0", ["deploy", "site"])
    rows = {row["name"]: row for row in ask("tasks", "list")}
    assert (rows["lab"]["base"], rows["lab"]["settings"], rows["9.0"]["tasks"]) == ("9.0", True, 3)


def test_a_release_that_was_read_as_fuel_did_is_below_a_deployment(lab: Ocb, ask: Ask, tmp_path: Path) -> None:
    put(tmp_path, {"9.0/tasks.yaml": NET + SITE.replace("}\n", ", role: [web, db]}\n"), "own.yaml": OWN})
    refused = lab("tasks", "upload", str(tmp_path / "9.0"), "--release", "9.0")
    assert refused.exit_code == 1
    assert "--lenient reads it so" in refused.stderr
    assert lab("tasks", "upload", str(tmp_path / "9.0"), "--release", "9.0", "--lenient").exit_code == 0
    for words in (
        ("upload", "--deployment", "lab", "--base", "9.0"),
        ("check", str(tmp_path / "own.yaml"), "--deployment", "lab"),
        ("upload", str(tmp_path / "own.yaml"), "--deployment", "lab"),
    ):
        answer = lab("tasks", *words)
        assert answer.exit_code == 0, answer.output
    assert ask("tasks", "show", "site", "--deployment", "lab")["origin"] == "deployment lab"


def test_what_fuel_would_not_read_has_no_note_of_how_to_read_it_so(ocb: Ocb, folder: Path) -> None:
    (folder / "net/tasks.yaml").write_text(NET.replace("shell", "shel"))
    assert "--lenient" not in ocb("tasks", "check", str(folder)).stderr


def test_an_upload_names_the_files_as_they_are_called_here(ocb: Ocb, tmp_path: Path) -> None:
    put(tmp_path, {"puppet/9.0/tasks.yaml": SITE, "own.yaml": SITE})
    place = f"error: {tmp_path}/{{}}:1: site.requires[0]: "
    assert place.format("own.yaml") in ocb("tasks", "upload", str(tmp_path / "own.yaml"), "--release", "9.0").stderr
    assert place.format("puppet/9.0/tasks.yaml") in ocb("tasks", "sync", "--dir", str(tmp_path / "puppet")).stderr


def test_a_download_gives_one_merged_list_that_can_be_uploaded(
    lab: Ocb, ask: Ask, folder: Path, tmp_path: Path
) -> None:
    put(tmp_path, {"own.yaml": OWN})
    for words in (
        ("tasks", "upload", str(folder), "--release", "9.0"),
        ("tasks", "upload", str(tmp_path / "own.yaml"), "--deployment", "lab", "--base", "9.0"),
        ("tasks", "download", "--deployment", "lab", "--merged", "--dir", str(tmp_path / "one")),
        ("tasks", "upload", str(tmp_path / "one"), "--release", "whole"),
    ):
        answer = lab(*words)
        assert answer.exit_code == 0, answer.output
    assert ask("tasks", "show", "site", "--release", "whole")["parameters"] == {"cmd": "false"}
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["tasks.yaml"]


def test_a_base_that_is_not_there_is_told_with_the_nearest(lab: Ocb, folder: Path) -> None:
    assert lab("tasks", "upload", str(folder), "--release", "liberty").exit_code == 0
    answer = lab("tasks", "upload", "--deployment", "lab", "--base", "libertty")
    assert answer.exit_code == 3
    assert "did you mean `liberty`" in answer.stderr


def test_a_download_writes_over_other_files_only_when_it_is_told_to(ocb: Ocb, folder: Path, tmp_path: Path) -> None:
    assert ocb("tasks", "upload", str(folder), "--release", "9.0").exit_code == 0
    put(tmp_path / "back", {"net/tasks.yaml": "mine\n"})
    refused = ocb("tasks", "download", "--release", "9.0", "--dir", str(tmp_path / "back"))
    assert refused.exit_code == 4
    assert (tmp_path / "back/net/tasks.yaml").read_text() == "mine\n"
    assert not (tmp_path / "back/site").exists()
    assert ocb("tasks", "download", "--release", "9.0", "--dir", str(tmp_path / "back"), "--force").exit_code == 0
    assert (tmp_path / "back/net/tasks.yaml").read_text() == NET


@pytest.mark.parametrize("name", ["../out.yaml", "/tmp/out.yaml", "link/out.yaml"])
def test_no_file_of_a_download_leaves_its_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here/link").symlink_to(tmp_path)
    with pytest.raises(Invalid, match="leads out of"):
        write(tmp_path / "here", {"a.yaml": "x", name: "y"}, force=True)
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["link"]


@pytest.mark.parametrize("name", ["", ".", "x" * 300, "y" * 300 + "/x", "a\0b"])
def test_a_stored_name_that_can_be_no_file_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match="nothing was written"):
        write(tmp_path / "here", {"a.yaml": "x", name: "y"}, force=True)
    assert not (tmp_path / "here").exists()


def test_a_directory_in_the_place_of_a_file_is_another_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").mkdir()
    with pytest.raises(Conflict, match=r"a\.yaml"):
        write(tmp_path, {"a.yaml": "x"}, force=False)


# -- sync --


def test_sync_stores_the_list_of_every_release_by_path_or_by_name(ocb: Ocb, ask: Ask, tmp_path: Path) -> None:
    put(tmp_path / "puppet", {"6.1/a/tasks.yaml": NET, "modules/tasks.yaml": NET, "modules/release": "9.0\n"})
    dry = ocb("tasks", "sync", "--dir", str(tmp_path / "puppet"), "--dry-run")
    assert (dry.exit_code, ask("tasks", "list")) == (10, [])
    rows = ask("tasks", "sync", "--dir", str(tmp_path / "puppet"))
    assert [(row["name"], row["change"], row["tasks"]) for row in rows] == [
        ("6.1", "created", 2),
        ("9.0", "created", 2),
    ]
    assert [row["change"] for row in ask("tasks", "sync", "--dir", str(tmp_path / "puppet"))] == ["unchanged"] * 2


def test_a_release_with_a_fault_stays_as_it_is_and_the_others_are_stored(ocb: Ocb, ask: Ask, tmp_path: Path) -> None:
    put(tmp_path / "puppet", {"6.1/tasks.yaml": NET, "9.0/tasks.yaml": NET})
    assert ocb("tasks", "sync", "--dir", str(tmp_path / "puppet")).exit_code == 0
    put(tmp_path / "puppet", {"6.1/tasks.yaml": NET.replace("[deploy]", "[nowhere]"), "9.0/more/tasks.yaml": SITE})
    answer = ocb("tasks", "sync", "--dir", str(tmp_path / "puppet"), "-o", "json")
    assert answer.exit_code == 1
    assert {row["name"]: row["change"] for row in json.loads(answer.stdout)} == {"6.1": "refused", "9.0": "changed"}
    assert "release 6.1: 1 fault; its list stays as it is" in answer.stderr
    assert {row["name"]: row["tasks"] for row in ask("tasks", "list")} == {"6.1": 2, "9.0": 3}


def test_a_release_whose_files_are_only_links_that_lead_away_stays_and_the_others_are_stored(
    ocb: Ocb, ask: Ask, tmp_path: Path
) -> None:
    put(tmp_path, {"puppet/6.1/tasks.yaml": NET, "puppet/9.0/tasks.yaml": NET, "elsewhere.yaml": NET})
    (tmp_path / "puppet" / "7.0").mkdir()
    (tmp_path / "puppet" / "7.0" / "tasks.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    answer = ocb("tasks", "sync", "--dir", str(tmp_path / "puppet"))
    assert answer.exit_code == 1
    assert "release 7.0: 1 fault; its list stays as it is" in answer.stderr
    assert [row["name"] for row in ask("tasks", "list")] == ["6.1", "9.0"]


def test_a_list_that_cannot_be_read_is_replaced_by_force_and_hides_no_other(
    lab: Ocb, ask: Ask, folder: Path, zk_session: Session
) -> None:
    release = ("tasks", "upload", str(folder), "--release", "9.0")
    own = ("tasks", "upload", str(folder), "--deployment", "lab")
    assert (lab(*release).exit_code, lab(*own).exit_code) == (0, 0)
    zk_session._client.set(paths.release_tasks("9.0"), b"garbage")
    (upload,) = (name for name in zk_session.children(paths.deployment_tasks("lab")) or () if name.startswith("list-"))
    zk_session._client.delete(paths.deployment_tasks("lab", f"{upload}/0000"))
    assert [row["name"] for row in ask("tasks", "list")] == ["lab"]
    for command in (release, own):
        answer = lab(*command)
        assert answer.exit_code != 0
        assert "--force" in answer.stderr
        assert lab(*command, "--force").exit_code == 0
    assert [row["tasks"] for row in ask("tasks", "list")] == [3, 3]
    assert lab("tasks", "plan", "--deployment", "lab").exit_code == 0


def test_an_error_about_an_unreadable_record_ends_with_the_command_that_shows_it(
    lab: Ocb, folder: Path, zk_session: Session
) -> None:
    assert lab("tasks", "upload", str(folder), "--release", "9.0").exit_code == 0
    path = paths.release_tasks("9.0")
    zk_session._client.set(path, b"garbage")
    answer = lab("tasks", "show", "net", "--release", "9.0")
    assert (answer.exit_code, answer.stderr.startswith(f"error: {path}: not a TaskListRecord of schema 1: ")) == (
        1,
        True,
    )
    assert answer.stderr.endswith(f"; see: nodepool-ocb record show {path}\n")


def test_settings_that_cannot_be_read_are_replaced_by_force_and_leave_the_list(
    lab: Ocb, ask: Ask, folder: Path, tmp_path: Path, zk_session: Session
) -> None:
    (tmp_path / "settings.json").write_text('{"speed": 1}')
    settings = ("tasks", "upload", "--deployment", "lab", "--settings", str(tmp_path / "settings.json"))
    assert lab(*settings, str(folder)).exit_code == 0
    zk_session._client.set(paths.deployment_tasks("lab", "settings"), b"garbage")
    assert [row["settings"] for row in ask("tasks", "list")] == [False]
    assert (lab(*settings).exit_code, lab(*settings, "--force").exit_code) == (1, 0)
    assert [(row["settings"], row["tasks"]) for row in ask("tasks", "list")] == [(True, 3)]


def test_a_list_over_a_release_is_checked_as_it_will_be_run(lab: Ocb, tmp_path: Path) -> None:
    put(tmp_path / "base", {"tasks.yaml": NET + NET.splitlines()[1].replace("net,", "late, requires: [/ne/],") + "\n"})
    put(tmp_path / "own", {"tasks.yaml": NET.splitlines()[1].replace("net,", "net, requires: [late],") + "\n"})
    assert lab("tasks", "upload", str(tmp_path / "base"), "--release", "9.0", "--compat-prefix").exit_code == 0
    own = lab("tasks", "upload", str(tmp_path / "own"), "--deployment", "lab", "--base", "9.0")
    assert (own.exit_code, "must not make a task wait for itself" in own.stderr) == (1, True)
    assert lab("tasks", "check", str(tmp_path / "own"), "--release", "9.0").exit_code == 1


# -- plan and graph --


def test_a_plan_shows_waves_nodes_and_what_is_left_out(lab: Ocb, ask: Ask, folder: Path) -> None:
    assert lab("tasks", "upload", str(folder), "--deployment", "lab").exit_code == 0
    planned = ask("tasks", "plan", "--deployment", "lab", "--nodes", "2,1")
    n1, n2 = "n1.example.com", "n2.example.com"
    assert [(row["wave"], row["task"], row["nodes"]) for row in planned["runs"]] == [
        (1, "net", [n2, n1]),
        (2, "site", [n2, n1]),
    ]
    answer = lab("tasks", "plan", "--deployment", "lab")
    assert "n1.example.com is not alive; its tasks wait until it is" in answer.stderr
    assert lab("tasks", "plan", "--deployment", "lab", "-o", "name").stdout.splitlines()[0] == f"net@{n1}"


def test_a_plan_of_a_node_that_is_not_there_is_refused(lab: Ocb, folder: Path) -> None:
    assert lab("tasks", "upload", str(folder), "--deployment", "lab").exit_code == 0
    assert lab("tasks", "plan", "--deployment", "lab", "--nodes", "3").exit_code == 3
    assert "deployment lad does not exist; did you mean `lab`" in lab("tasks", "plan", "--deployment", "lad").stderr


def test_a_plan_for_virtual_nodes_alone_says_that_no_machine_is_there(ocb: Ocb, folder: Path) -> None:
    assert ocb("deployment", "create", "lab").exit_code == 0
    assert ocb("node", "create", "v.example.com", "--virtual", "--deployment", "lab").exit_code == 0
    assert ocb("tasks", "upload", str(folder), "--deployment", "lab").exit_code == 0
    refused = ocb("tasks", "plan", "--deployment", "lab")
    assert refused.exit_code == 4
    assert "deployment lab has no node that is a machine; nodepool-ocb node create FQDN --address" in refused.stderr


def test_graphs_are_drawn_of_a_release_and_of_a_deployment(lab: Ocb, ask: Ask, folder: Path) -> None:
    for words in (("--release", "9.0"), ("--deployment", "lab")):
        assert lab("tasks", "upload", str(folder), *words).exit_code == 0
    drawn = ask("tasks", "graph", "--release", "9.0", "--tred")
    assert drawn["edges"] == [["site", "deploy"], ["net", "site"]]
    assert ask("tasks", "graph", "--release", "9.0", "--parents-for", "net")["edges"] == []
    instances = ask("tasks", "graph", "--deployment", "lab", "--remove", "stage")
    assert {each["name"] for each in instances["nodes"]} >= {"net@n1.example.com", "site@n2.example.com"}
    assert lab("tasks", "graph", "--deployment", "lab", "--format", "mermaid").stdout.startswith("flowchart LR")
    assert lab("tasks", "graph", "--deployment", "lab").stdout.startswith("digraph tasks {")


def test_a_plan_says_why_the_rest_is_not_run(lab: Ocb, ask: Ask, folder: Path, tmp_path: Path) -> None:
    condition = "condition: 'settings:fast.value == true', parameters"
    put(folder, {"site/deep/tasks.yaml": SITE.replace("parameters", condition)})
    put(tmp_path, {"settings.json": '{"fast": {"value": false}}'})
    settings = ("--settings", str(tmp_path / "settings.json"))
    assert lab("tasks", "upload", str(folder), "--deployment", "lab", *settings).exit_code == 0
    (reason,) = ask("tasks", "plan", "--deployment", "lab")["reasons"]
    assert (reason["instances"], reason["tasks"]) == (2, ["site"])
    assert "settings:fast.value is false" in reason["reason"]
    part = ask("tasks", "plan", "--deployment", "lab", "--tasks", "net/2")
    assert [(row["task"], row["nodes"]) for row in part["runs"]] == [("net", ["n2.example.com"])]
    assert {row["reason"] for row in part["left_out"]} == {"not selected: not net/2"}
    typo = lab("tasks", "plan", "--deployment", "lab", "--end", "nett")
    assert typo.exit_code == 1
    assert "did you mean `net`" in typo.stderr
