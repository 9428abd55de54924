"""``nodepool-ocb rollout check``, ``plan`` and ``select``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Json, Node
from nodepool_ocb.store.client.session import Session
from tests.fixtures.commands import Ocb

STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: site}
data:
  groups:
    - name: control
      critical: true
      depends_on: [ntp]
      selectors: [{node_tags: [control], rack_names: [r1]}]
      success_criteria: {percent_successful_nodes: 90, minimum_successful_nodes: 2}
    - name: ntp
      critical: true
      depends_on: []
      selectors: [{node_names: [ntp01]}]
    - name: rest
      critical: false
      depends_on: [control, ntp]
      selectors: [{node_tags: [control, compute]}]
"""


@pytest.fixture
def site(world: Session) -> Session:
    """Nodes in deployment lab beside n1.example.com, and one elsewhere."""
    nodes = {
        "ntp01.example.com": Node(deployment="lab", rack="r1"),
        "c1.example.com": Node(deployment="lab", rack="r1", tags=("control",)),
        "c2.example.com": Node(deployment="lab", rack="r1", tags=("control",), labels={"zone": "a"}),
        "c3.example.com": Node(deployment="system", rack="r2", tags=("control",)),
    }
    world.commit([Create(paths.node(name), node) for name, node in nodes.items()])
    return world


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "site.yaml").write_text(STRATEGY)
    return str(tmp_path / "site.yaml")


def test_check_shows_the_groups(ocb: Ocb, ask: Callable[..., Json], file: str) -> None:
    result = ocb("rollout", "check", file)
    assert result.exit_code == 0, result.output
    rows = result.stdout.splitlines()
    assert rows[0].split() == ["LEVEL", "NAME", "CRITICAL", "DEPENDS", "ON", "SUCCESS", "CRITERIA"]
    assert rows[1].split()[:4] == ["1", "control", "yes", "ntp"]
    assert rows[1].endswith("at least 90% successful, at least 2 successful")
    document = ask("rollout", "check", file)
    assert [group["name"] for group in document["groups"]] == ["control", "ntp", "rest"]
    assert [phase["name"] for phase in document["phases"]] == ["prepare", "deploy"]
    assert ocb("rollout", "check", file, "-o", "name").stdout.split() == ["control", "ntp", "rest"]


def test_check_tells_every_fault_and_needs_no_zookeeper(ocb: Ocb, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODEPOOL_OCB_ZOOKEEPER", "127.0.0.1:1")
    broken = STRATEGY.replace("[ntp]", "[nto]").replace("critical: false", "critical: maybe")
    Path(file).write_text(broken)
    result = ocb("rollout", "check", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        f'error: {file}:7: data.groups[control].depends_on[0]: must name a group, and is text "nto"; did you mean `ntp`?',
        f'error: {file}:15: data.groups[rest].critical: must be true or false, and is text "maybe"',
    ]


def test_check_finds_no_other_strategy_and_no_file(ocb: Ocb, file: str) -> None:
    assert ocb("rollout", "check", file, "--name", "other").exit_code == 3
    result = ocb("rollout", "check", f"{file}.old")
    assert (result.exit_code, result.stderr) == (3, f"error: {file}.old does not exist; check the path\n")


@pytest.mark.usefixtures("site")
def test_plan_shows_the_nodes_that_there_are(ocb: Ocb, ask: Callable[..., Json], file: str) -> None:
    result = ocb("rollout", "plan", file, "--deployment", "lab")
    assert result.exit_code == 0, result.output
    assert [row.split()[:4] for row in result.stdout.splitlines()[1:]] == [
        ["0", "ntp", "yes", "1"],
        ["1", "control", "yes", "2"],
        ["2", "rest", "no", "2"],
    ]
    assert result.stderr.splitlines() == [
        "note: phase prepare is skipped: no role is in this phase",
        "note: groups control and rest have 2 nodes in common; each is sent once",
        "note: 1 in no group: n1.example.com",
    ]
    document = ask("rollout", "plan", file, "--deployment", "system")
    assert document["members"]["rest"] == ["c1.example.com", "c2.example.com", "c3.example.com"]
    assert document["levels"] == [["ntp"], ["control"], ["rest"]]
    assert document["unmet"] == {}


@pytest.mark.usefixtures("site")
def test_plan_fails_where_criteria_cannot_be_met(ocb: Ocb, file: str) -> None:
    Path(file).write_text(STRATEGY.replace("minimum_successful_nodes: 2", "minimum_successful_nodes: 3"))
    result = ocb("rollout", "plan", file, "-o", "json")
    assert result.exit_code == 1
    assert '"unmet"' in result.stdout
    assert result.stderr == "error: group control: minimum_successful_nodes: 3 wanted, and it has 2 nodes\n"


@pytest.mark.usefixtures("site")
def test_plan_is_of_the_only_deployment_where_none_is_named(ocb: Ocb, ask: Callable[..., Json]) -> None:
    assert ask("rollout", "plan")["deployment"] == "lab"
    ask("deployment", "create", "other")
    several = ocb("rollout", "plan")
    assert (several.exit_code, "several deployments: lab, other" in several.stderr) == (2, True)


@pytest.mark.usefixtures("site")
def test_a_group_without_nodes_and_with_a_minimum_is_named_and_planned_all_the_same(ocb: Ocb, file: str) -> None:
    Path(file).write_text(STRATEGY.replace("[control], rack_names: [r1]", "[none]"))
    result = ocb("rollout", "plan", file)
    assert result.exit_code == 0
    fails = "minimum_successful_nodes: 2 wanted, and it has 0 nodes"
    assert f"note: group control has no nodes, and fails: {fails}\n" in result.stderr


@pytest.mark.usefixtures("site")
def test_a_strategy_without_groups_is_planned_with_a_warning(ocb: Ocb, file: str) -> None:
    Path(file).write_text("groups: []\n")
    for verb in ("check", "plan"):
        result = ocb("rollout", verb, file)
        assert result.exit_code == 0
        assert f"warning: {file}:1: groups: is empty: a rollout of it has nothing to do\n" in result.stderr


def test_airships_configuration_may_be_a_file_beside_the_strategy(
    ocb: Ocb, ask: Callable[..., Json], file: str, tmp_path: Path
) -> None:
    beside = tmp_path / "configuration.yaml"
    beside.write_text(
        "schema: shipyard/DeploymentConfiguration/v1\nmetadata: {name: deployment-configuration}\n"
        "data: {physical_provisioner: {deployment_strategy: site, deploy_timeout: 60, destroy_timeout: 9}}\n"
    )
    for files in ((file, str(beside)), (str(beside), file)):
        phases = ask("rollout", "check", *files)["phases"]
        assert [phase["timeout_seconds"] for phase in phases] == [1800.0, 60.0]
    beside.write_text(beside.read_text().replace(": site,", ": other,"))
    refused = ocb("rollout", "check", file, str(beside))
    assert (refused.exit_code, "holds no strategy other, but site" in refused.stderr) == (3, True)


@pytest.mark.usefixtures("site")
def test_plan_without_a_strategy_is_one_group_of_all(ask: Callable[..., Json]) -> None:
    document = ask("rollout", "plan", "--deployment", "lab")
    assert document["members"] == {"all": ["c1.example.com", "c2.example.com", "n1.example.com", "ntp01.example.com"]}


@pytest.mark.usefixtures("site")
def test_an_unknown_deployment_is_not_found(ocb: Ocb, file: str) -> None:
    result = ocb("rollout", "plan", file, "--deployment", "lap")
    assert result.exit_code == 3
    assert "did you mean `lab`?" in result.stderr


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    ("selectors", "names"),
    [
        ([], ["c1", "c2", "c3", "n1", "ntp01"]),
        (["{node_tags: [control], rack_names: [r1]}"], ["c1", "c2"]),
        (["{node_names: [ntp01]}", '{"node_labels": ["zone:a"]}'], ["c2", "ntp01"]),
        (["{node_tags: [none]}"], []),
    ],
)
def test_select_gives_the_names_that_selectors_mean(ocb: Ocb, selectors: list[str], names: list[str]) -> None:
    result = ocb("rollout", "select", *selectors, "-o", "name")
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == [f"{name}.example.com" for name in names]


def test_select_tells_what_is_wrong_in_every_selector(ocb: Ocb) -> None:
    result = ocb("rollout", "select", "{node_tag: [a]}", "{rack_names: r1}")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "error: selector 1:1: node_tag: unknown key `node_tag`; did you mean `node_tags`?",
        'error: selector 2:1: rack_names: must be a list, and is text "r1"',
    ]
