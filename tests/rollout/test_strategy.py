"""Documents of strategies to records, and what is said about their slips."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model.records import Node
from nodepool_ocb.rollout import reading
from nodepool_ocb.rollout.selectors import select, version
from nodepool_ocb.rollout.strategy import (
    PHASES,
    Batch,
    Breaker,
    Criteria,
    Group,
    InFlight,
    OnTimeout,
    Phase,
    Reaction,
    Selector,
    Strategy,
)

AIRSHIP = """\
---
schema: shipyard/DeploymentStrategy/v1
metadata:
  schema: metadata/Document/v1
  name: deployment-strategy
  layeringDefinition: {abstract: false, layer: global}
  storagePolicy: cleartext
data:
  groups:
    - name: control-nodes
      critical: true
      depends_on:
        - ntp-node
      selectors:
        - node_names: []
          node_labels:
            - ucp_control_plane: enabled
            - "zone:a"
          node_tags:
            - control
          rack_names:
            - rack03
      success_criteria:
        percent_successful_nodes: 90
        minimum_successful_nodes: 3
        maximum_failed_nodes: 1
    - name: ntp-node
      critical: false
      depends_on: []
      selectors: []
...
"""


def test_a_document_of_airship() -> None:
    assert reading.load(AIRSHIP, called="f") == Strategy(
        name="deployment-strategy",
        groups=(
            Group(
                name="control-nodes",
                critical=True,
                depends_on=("ntp-node",),
                selectors=(
                    Selector(
                        node_tags=("control",),
                        node_labels=("ucp_control_plane:enabled", "zone:a"),
                        rack_names=("rack03",),
                    ),
                ),
                success_criteria=Criteria(
                    percent_successful_nodes=90, minimum_successful_nodes=3, maximum_failed_nodes=1
                ),
            ),
            Group(name="ntp-node"),
        ),
    )


def test_what_is_ours_is_off_unless_told() -> None:
    bare = reading.load("groups: [{name: a, critical: true, depends_on: [], selectors: []}]", called="f")
    assert bare == Strategy(groups=(Group(name="a", critical=True),))
    assert bare.phases == PHASES
    assert (bare.parallel_groups, bare.stop_early, bare.on_critical_failure) == (1, False, Reaction.CONTINUE)
    assert (bare.max_in_flight, bare.breaker, bare.on_timeout) == (InFlight(), Breaker(), OnTimeout.FAIL)


def test_everything_that_is_ours() -> None:
    text = """\
groups:
  - name: a
    critical: true
    depends_on: []
    selectors: []
    parallel_nodes: 5
    batches: [{nodes: 1, pause: true}, 10%, 7, {nodes: 100%}]
    timeouts: {burn-in: 60}
    on_critical_failure: stop
phases:
  - {name: burn-in, roles: [burnt-in], timeout_seconds: 0.5}
  - {name: deploy, stages: [main]}
parallel_groups: 2
max_in_flight: {nodes: 50, group: 20, rack: 2, labels: {zone: 10}}
stop_early: true
on_critical_failure: cancel
on_timeout: evaluate
breaker: {maximum_failed_nodes: 5, maximum_failed_percent: 10}
"""
    assert reading.load(text, called="f") == Strategy(
        groups=(
            Group(
                name="a",
                critical=True,
                parallel_nodes=5,
                batches=(Batch(nodes=1, pause=True), Batch(percent=10), Batch(nodes=7), Batch(percent=100)),
                timeouts={"burn-in": 60},
                on_critical_failure=Reaction.STOP,
            ),
        ),
        phases=(
            Phase(name="burn-in", roles=("burnt-in",), timeout_seconds=0.5),
            Phase(name="deploy", stages=("main",), timeout_seconds=3600),
        ),
        parallel_groups=2,
        max_in_flight=InFlight(nodes=50, group=20, rack=2, labels={"zone": 10}),
        stop_early=True,
        on_critical_failure=Reaction.CANCEL,
        on_timeout=OnTimeout.EVALUATE,
        breaker=Breaker(maximum_failed_nodes=5, maximum_failed_percent=10),
    )


GROUP = "groups: [{name: a, critical: true, depends_on: [], selectors: []}]\n"


def test_the_examples_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/rollouts.md").read_text()
    whole, phases, stages = (part.split("```")[0] for part in page.split("```yaml\n")[1:])
    assert [group.name for group in reading.load(whole, called="f").groups] == [
        "ntp-node",
        "control-nodes",
        "compute-nodes",
    ]
    made = reading.load(GROUP + phases, called="f")
    assert made.phases == (msgspec.structs.replace(PHASES[0], roles=("os-installed",)), PHASES[1])
    of_tasks = reading.load(GROUP + stages, called="f").phases
    assert [each.stages for each in of_tasks] == [("pre_deployment",), ("deploy_end",)]


def test_documents_of_other_kinds_in_the_file_are_passed_over() -> None:
    text = f"---\n---\nschema: drydock/Region/v1\ndata: {{sucess: 1}}\n{AIRSHIP}"
    assert reading.load(text, called="f").groups[0].name == "control-nodes"


def test_of_several_strategies_one_is_taken_by_its_name(tmp_path: Path) -> None:
    other = AIRSHIP.replace("name: deployment-strategy", "name: other").replace("critical: false", "critical: true")
    (tmp_path / "f.yaml").write_text(AIRSHIP + other)
    assert reading.load(tmp_path / "f.yaml").name == "deployment-strategy"
    assert reading.load(tmp_path / "f.yaml", "other").groups[1].critical
    with pytest.raises(NotFound, match="holds no strategy third, but deployment-strategy, other"):
        reading.load(tmp_path / "f.yaml", "third")


def problems(text: str) -> list[str]:
    with pytest.raises(Invalid) as caught:
        reading.load_all(text, "f.yaml")
    return list(caught.value.problems)


HEAD = "groups:\n- name: a\n"


def group(line: str) -> str:
    """A document with one group: its name in line 2, this in line 3, then the keys that it does not have."""
    missing = "".join(
        f"  {key}: {value}\n"
        for key, value in (("critical", "true"), ("depends_on", "[]"), ("selectors", "[]"))
        if not line.startswith(f"{key}:")
    )
    return f"{HEAD}  {line}\n{missing}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (group("critical: yes"), '3: groups[a].critical: must be true or false, and is text "yes"'),
        (group("critical:"), "3: groups[a].critical: must be true or false, and is nothing"),
        (group("depends_on: b"), '3: groups[a].depends_on: must be a list, and is text "b"'),
        (group("depends_on:"), "3: groups[a].depends_on: must be a list, and is nothing"),
        (group("depends_on: [b]"), '3: groups[a].depends_on[0]: must name a group, and is text "b"; groups here: a'),
        (
            group("depends_on: [a]"),
            "3: groups[a].depends_on[0]: must not lead back to its own group, and does: a -> a; remove one of these",
        ),
        (group("depends_on: [7]"), "3: groups[a].depends_on[0]: must be text, and is 7"),
        (group("selectors:"), "3: groups[a].selectors: must be a list, and is nothing"),
        (group("selectors: [a]"), '3: groups[a].selectors[0]: must be a mapping, and is text "a"'),
        (
            group("selectors: [{node_tag: [x]}]"),
            "3: groups[a].selectors[0].node_tag: unknown key `node_tag`; did you mean `node_tags`?",
        ),
        (
            group("selectors: [{}, {node_tags: control}]"),
            '3: groups[a].selectors[1].node_tags: must be a list, and is text "control"',
        ),
        (group("selectors: [{node_names: }]"), "3: groups[a].selectors[0].node_names: must be a list, and is nothing"),
        (
            group("selectors: [{rack_names: [1]}]"),
            "3: groups[a].selectors[0].rack_names[0]: must be text, and is 1",
        ),
        (
            group("selectors: [{node_labels: [zone=a]}]"),
            '3: groups[a].selectors[0].node_labels[0]: must be a label such as `key: value` or "key:value", '
            'and is text "zone=a"',
        ),
        (
            group("selectors: [{node_labels: [':y']}]"),
            '3: groups[a].selectors[0].node_labels[0]: must be a label such as `key: value` or "key:value", '
            'and is text ":y"',
        ),
        (
            group("selectors: [{node_labels: [{'': y}]}]"),
            '3: groups[a].selectors[0].node_labels[0]: must be a label such as `key: value` or "key:value", '
            'and is text ""',
        ),
        (
            group("selectors: [{node_labels: [{zone: a, room: b}]}]"),
            "3: groups[a].selectors[0].node_labels[0]: must have at most 1 key, and has 2",
        ),
        (
            group("selectors: [{node_labels: [{zone: 1.10}]}]"),
            "3: groups[a].selectors[0].node_labels[0].zone: "
            "must be text or a whole number or true or false, and is 1.1",
        ),
        (
            group("sucess_criteria: {}"),
            "3: groups[a].sucess_criteria: unknown key `sucess_criteria`; did you mean `success_criteria`?",
        ),
        (
            group("success_criteria: {percent_successful_nodes: 101}"),
            "3: groups[a].success_criteria.percent_successful_nodes: must be at most 100, and is 101",
        ),
        (
            group("success_criteria: {percent_successful_nodes: -1}"),
            "3: groups[a].success_criteria.percent_successful_nodes: must be at least 0, and is -1",
        ),
        (
            group("success_criteria: {percent_successful_nodes: 90.0}"),
            "3: groups[a].success_criteria.percent_successful_nodes: must be a whole number, and is 90.0",
        ),
        (
            group("success_criteria: {percent_successful_nodes: 90%}"),
            '3: groups[a].success_criteria.percent_successful_nodes: must be a whole number, and is text "90%"',
        ),
        (
            group("success_criteria: {minimum_successful_nodes: true}"),
            "3: groups[a].success_criteria.minimum_successful_nodes: must be a whole number, and is true",
        ),
        (
            group("success_criteria: {maximum_failed_nodes: -2}"),
            "3: groups[a].success_criteria.maximum_failed_nodes: must be at least 0, and is -2",
        ),
        (group("parallel_nodes: 0"), "3: groups[a].parallel_nodes: must be at least 1, and is 0"),
        (group("batches: []"), "3: groups[a].batches: must have at least 1 item, and has 0"),
        (
            group("batches: [1, 0%]"),
            "3: groups[a].batches[1]: must be a number of nodes such as 5, or a part of them such as 10%, "
            'and is text "0%"',
        ),
        (
            group("batches: [{nodes: 5, pause: true}, 5]"),
            "3: groups[a].batches[1]: must be more than the batch before it, 5, since batches are counted from the "
            "start, and is 5",
        ),
        (
            group("batches: [{nodes: 5, paus: true}]"),
            "3: groups[a].batches[0].paus: unknown key `paus`; did you mean `pause`?",
        ),
        (
            group("timeouts: {prepare: 5, prepair: 5}"),
            "3: groups[a].timeouts.prepair: must be the name of a phase; phases here: prepare, deploy",
        ),
        (
            group("timeouts: {prepair: 5}"),
            "3: groups[a].timeouts.prepair: must be the name of a phase; did you mean `prepare`?",
        ),
        (
            group("timeouts: {reboot: 5}"),
            "3: groups[a].timeouts.reboot: must be the name of a phase; phases here: prepare, deploy",
        ),
        (group("timeouts: {deploy: 0}"), "3: groups[a].timeouts.deploy: must be above 0, and is 0"),
        (
            group("on_critical_failure: halt"),
            "3: groups[a].on_critical_failure: must be one of continue, stop, cancel, and is text \"halt\"",
        ),
        (
            "groups:\n- {name: a, depends_on: [], selectors: [], critical: false,\n   on_critical_failure: stop}\n",
            "3: groups[a].on_critical_failure: must be left out of a group that is not critical; "
            "set `critical: true`, or remove it",
        ),
        ("groups:\n- {critical: true, depends_on: [], selectors: []}", "2: groups[0]: key `name` is missing"),
        (
            "groups:\n- {name: a b, critical: true, depends_on: [], selectors: []}",
            "2: groups[a b].name: must be a name of at most 63 letters, digits, '-', '_' and '.', which begins with a "
            'letter or digit, and is text "a b"',
        ),
        ("groups: {}", "1: groups: must be a list, and is a mapping"),
        (
            "# nothing\n- a",
            "2: must be a mapping with `groups`, and is a list; for a list of tasks see: nodepool-ocb tasks plan",
        ),
        ("# nothing\n\nphases: []\n" + GROUP, "3: phases: must have at least 1 item, and has 0"),
        (
            GROUP + "phases: [{name: deploy}, {name: deploy}]",
            "2: phases[deploy].name: must be a name of its own, and is that of phase deploy above",
        ),
        (
            GROUP + "phases: [{name: dependency}]",
            "2: phases[dependency].name: must be none of dependency, stopped, cancelled, which are reasons of failure",
        ),
        (GROUP + "paralel_groups: 2", "2: paralel_groups: unknown key `paralel_groups`; did you mean `parallel_groups`?"),
        (GROUP + "breaker: {}", "2: breaker: must have at least 1 key, and has 0"),
        (GROUP + "max_in_flight: {racks: 1}", "2: max_in_flight.racks: unknown key `racks`; did you mean `rack`?"),
        (
            "schema: shipyard/DeploymentStrategy/v2\ndata: {" + GROUP.strip() + "}",
            "1: schema: must be shipyard/DeploymentStrategy/v1, and is text \"shipyard/DeploymentStrategy/v2\"",
        ),
        (
            "schema: shipyard/DeploymentStratgy/v1\ndata: {" + GROUP.strip() + "}",
            "1: schema: must be shipyard/DeploymentStrategy/v1, and is text \"shipyard/DeploymentStratgy/v1\"",
        ),
        ("\ndata: {" + GROUP.strip() + "}", "2: key `schema` is missing"),
        ("schema: shipyard/DeploymentStrategy/v1\n" + GROUP, "1: key `data` is missing"),
        ("groups: [", "2: is not YAML: "),
        (group("name: b"), "3: groups[0].name: key is there twice, first in line 2; remove one of them"),
        (
            "schema: a/B/v1\n---\nschema: a/C/v1\n",
            " holds no document of schema shipyard/DeploymentStrategy/v1, only a/B/v1, a/C/v1",
        ),
        ("", " holds no document of schema shipyard/DeploymentStrategy/v1"),
    ],
)  # fmt: skip
def test_a_slip_is_told_with_line_path_found_and_expected(text: str, sentence: str) -> None:
    found = problems(text)
    assert found[0].startswith(f"f.yaml:{sentence}")
    if "data` is missing" not in sentence:  # where data is not, its keys are not where they belong
        assert len(found) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            group("success_criteria: {percent_successful_nodes: 100, maximum_failed_nodes: 1}"),
            "3: groups[a].success_criteria.maximum_failed_nodes: is 1, and percent_successful_nodes: 100 allows no "
            "failed node; each is evaluated by itself",
        ),
        ("groups: []", "1: groups: is empty: a rollout of it has nothing to do"),
        (
            group("name: a"),
            "3: groups[0].name: key is there twice with one value, first in line 2; remove one of them",
        ),
    ],
)
def test_what_is_odd_and_can_be_carried_out_is_a_warning(text: str, sentence: str) -> None:
    found = reading.read([text], "f.yaml")
    assert found.warnings == (f"f.yaml:{sentence}",)
    assert len(found.strategies) == 1


CONFIGURATION = """\
schema: shipyard/DeploymentConfiguration/v1
metadata:
  schema: metadata/Document/v1
  name: deployment-configuration
  layeringDefinition: {abstract: false, layer: global}
  storagePolicy: cleartext
data:
  physical_provisioner:
    deployment_strategy: second
    deploy_interval: 30
    deploy_timeout: 5400
    prepare_node_interval: 30
    prepare_node_timeout: 900
  kubernetes_provisioner:
    drain_timeout: 3600
  armada:
    manifest: full-site
"""


def test_airships_configuration_names_the_strategy_and_the_times_of_its_phases(tmp_path: Path) -> None:
    second = AIRSHIP.replace("name: deployment-strategy", "name: second")
    one = reading.load(CONFIGURATION + "---\n" + AIRSHIP + second, called="f.yaml")
    assert (one.name, [phase.timeout_seconds for phase in one.phases]) == ("second", [900.0, 5400.0])
    (tmp_path / "strategy.yaml").write_text(AIRSHIP + second)
    (tmp_path / "configuration.yaml").write_text(CONFIGURATION)
    two = reading.read([tmp_path / "configuration.yaml", tmp_path / "strategy.yaml"])
    assert two.chosen(None, "both") == one
    assert two.chosen("deployment-strategy", "both").name == "deployment-strategy"
    assert two.warnings == ()


def test_a_phase_that_says_its_own_time_keeps_it_beside_airships_configuration() -> None:
    own = "phases: [{name: prepare, timeout_seconds: 7}, {name: deploy}]\n"
    found = reading.load(CONFIGURATION.replace("second", "deployment-strategy") + "---\n" + GROUP + own, called="f")
    assert [phase.timeout_seconds for phase in found.phases] == [7.0, 5400.0]


def test_a_strategy_that_is_not_there_is_told_with_who_asked_for_it_and_the_option() -> None:
    found = reading.read([CONFIGURATION + "---\n" + AIRSHIP], called="f.yaml")
    line = 1 + CONFIGURATION[: CONFIGURATION.index("deployment_strategy:")].count("\n")
    start = "f.yaml holds no strategy {}, but deployment-strategy; "
    asks = f"physical_provisioner.deployment_strategy at f.yaml:{line} asks for it; "
    for name, whose in (("second", asks), ("third", "")):
        with pytest.raises(NotFound) as refused:
            found.chosen(None if whose else name, "f.yaml")
        assert str(refused.value) == start.format(name) + whose + "name one of these with --name"


def test_what_is_wrong_in_airships_configuration_is_named() -> None:
    with pytest.raises(NotFound, match="holds no strategy second, but deployment-strategy"):
        reading.load(CONFIGURATION + "---\n" + AIRSHIP, called="f.yaml")
    late = CONFIGURATION.replace("5400", "soon")
    assert problems(late + "---\n" + AIRSHIP) == [
        'f.yaml:11: data.physical_provisioner.deploy_timeout: must be a number or nothing, and is text "soon"'
    ]
    other = CONFIGURATION.replace("name: deployment-configuration", "name: other")
    reading.load(
        CONFIGURATION + "---\n" + other + "---\n" + AIRSHIP.replace("deployment-strategy", "second"), called="f"
    )
    assert problems(f"{other}---\n{other}---\n{AIRSHIP}") == [
        f"f.yaml:{line}: is one of 2 documents of shipyard/DeploymentConfiguration/v1; keep one, or name one of them "
        "deployment-configuration"
        for line in (1, 19)
    ]


def test_names_that_are_taken_are_told_with_the_line_of_the_first() -> None:
    text = "groups:\n" + 2 * "- {name: a, critical: true, depends_on: [], selectors: []}\n"
    taken = "must be a name of its own, and is that of the group in line 2; rename one of them"
    assert problems(text) == [f"f.yaml:3: groups[a].name: {taken}"]
    twice = problems(AIRSHIP + AIRSHIP)
    assert twice == ["f.yaml:36: metadata.name: strategy deployment-strategy is in line 5 already; rename one of them"]


def test_each_knot_of_groups_is_told_once_with_a_shortest_circle() -> None:
    edges = {"a": "b", "b": "c", "c": "a, b", "d": "e", "e": "d", "f": "a"}
    text = "groups:\n" + "".join(
        f"- {{name: {name}, critical: true, depends_on: [{above}], selectors: []}}\n" for name, above in edges.items()
    )
    lead = "must not lead back to its own group, and does:"
    assert problems(text) == [
        f"f.yaml:3: groups[b].depends_on[0]: {lead} b -> c -> b; remove one of these (3 groups are in this knot)",
        f"f.yaml:5: groups[d].depends_on[0]: {lead} d -> e -> d; remove one of these",
    ]


def test_every_fault_of_every_document_is_told_at_once() -> None:
    text = AIRSHIP.replace("critical: true", "critical: 1") + AIRSHIP.replace("- ntp-node", "- ntp-nod")
    assert problems(text) == [
        "f.yaml:11: data.groups[control-nodes].critical: must be true or false, and is 1",
        'f.yaml:44: data.groups[control-nodes].depends_on[0]: must name a group, and is text "ntp-nod"; '
        "did you mean `ntp-node`?",
    ]


# -- selectors --

SITE = {
    "ntp01.a.example.com": Node(rack="r1", tags=("control",), labels={"zone": "x"}),
    "ntp01.b.example.com": Node(rack="r2"),
    "n2.a.example.com": Node(rack="r1", tags=("compute", "ssd")),
    "n3.a.example.com": Node(tags=("compute",), labels={"zone": "x", "ssd": "true"}),
}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ([], "ntp01.a ntp01.b n2.a n3.a"),
        (["{}"], "ntp01.a ntp01.b n2.a n3.a"),
        (["{node_tags: [], node_names: []}"], "ntp01.a ntp01.b n2.a n3.a"),
        (["{node_names: [ntp01]}"], "ntp01.a ntp01.b"),
        (["{node_names: [ntp01.b.example.com, n2]}"], "ntp01.b n2.a"),
        (["{node_names: [ntp01.a]}"], ""),
        (["{rack_names: [r1, r2]}"], "ntp01.a ntp01.b n2.a"),
        (["{rack_names: [r1], node_tags: [compute, control]}"], "ntp01.a n2.a"),
        (["{node_labels: [zone: x]}"], "ntp01.a n3.a"),
        (["{node_labels: ['zone: x', 'zone: y'], node_tags: [compute]}"], "n3.a"),
        (["{node_labels: [{ssd: true}]}"], "n3.a"),
        (["{node_tags: [ssd]}", "{rack_names: [r2]}"], "ntp01.b n2.a"),
        (["{node_tags: [ssd]}", "{}"], "ntp01.a ntp01.b n2.a n3.a"),
        (["{node_tags: [nothing]}"], ""),
    ],
)
def test_selectors(written: list[str], meant: str) -> None:
    selectors = [reading.selector(text) for text in written]
    assert select(selectors, SITE) == sorted(f"{name}.example.com" for name in meant.split())


def test_a_selector_that_is_wrong_says_so() -> None:
    with pytest.raises(Invalid, match="selector:1: node_tag: unknown key `node_tag`; did you mean `node_tags`"):
        reading.selector("{node_tag: [x]}")


def test_the_version_of_an_inventory_changes_with_what_selectors_see() -> None:
    same = {name: SITE[name] for name in reversed(SITE)}
    assert version(SITE) == version(same)
    other = {**SITE, "n2.a.example.com": Node(rack="r2", tags=("compute", "ssd"))}
    assert version(SITE) != version(other)
    blind = {**SITE, "n2.a.example.com": Node(rack="r1", tags=("ssd", "compute"), alive=True)}
    assert version(SITE) == version(blind)


def test_a_file_that_is_not_there_or_holds_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "strategy.yaml"
    with pytest.raises(NotFound, match=r"strategy\.yaml does not exist"):
        reading.load_all(file)
    file.write_text("schema: some/Other/v1\n")
    with pytest.raises(Invalid, match=r"strategy\.yaml: holds no document of schema .*, only some/Other/v1"):
        reading.load_all(file)


def test_faults_come_in_the_order_of_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "strategy.yaml"
    groups = "".join(f"  - {{name: g{number}, critical: 7, depends_on: []}}\n" for number in range(12))
    file.write_text(
        AIRSHIP.split("  groups:")[0] + "  groups:\n" + "".join(f"  {line}\n" for line in groups.splitlines())
    )
    with pytest.raises(Invalid) as caught:
        reading.load_all(file)
    lines = [int(problem.split(":")[1]) for problem in caught.value.problems]
    assert len(lines) >= 12
    assert lines == sorted(lines)
