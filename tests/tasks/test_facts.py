"""What a run gives to its nodes: field by field, bounded, as a file that Ruby and Python read, and as conditions see it."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given as given_any
from hypothesis import strategies as st

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks import facts
from nodepool_ocb.tasks.conditions import NodeFacts, evaluate, parse
from nodepool_ocb.tasks.facts import ClusterStatus
from nodepool_ocb.tasks.parameters import completed
from nodepool_ocb.tasks.plan import Member, TaskPlan
from nodepool_ocb.tasks.priorities import agendas
from nodepool_ocb.tasks.tasklist import Expression, Language, Task, TaskKind, TaskList
from nodepool_ocb.tasks.yamltext import dumped

MEMBERS = (
    Member(name="node-1.example.com", uid="1", roles=("primary-controller", "ceph-osd")),
    Member(name="node-2.example.com", uid="2", roles=("compute",)),
    Member(name="admin.example.com", uid="0", admin=True),
)
ADDRESSES = {
    "node-1.example.com": {"internal_address": "10.0.0.1", "public_address": "192.0.2.1"},
    "admin.example.com": {"internal_address": "10.0.0.9"},
}
SETTINGS = {"storage": {"objects_ceph": True}, "openstack_version": "liberty-9.0", "uid": "no node's"}


def test_what_all_nodes_are_given_is_the_settings_at_the_top_and_the_nodes_by_role() -> None:
    assert facts.common("lab", SETTINGS, MEMBERS, ADDRESSES) == {
        "deployment_id": "lab",
        "deployment_name": "lab",
        "deployment_mode": "ha_compact",
        "master_ip": "10.0.0.9",
        "storage": {"objects_ceph": True},
        "openstack_version": "liberty-9.0",
        "uid": "no node's",
        "nodes": [
            {
                "uid": "1",
                "fqdn": "node-1.example.com",
                "name": "node-1",
                "user_node_name": "node-1",
                "role": role,
                "internal_address": "10.0.0.1",
                "public_address": "192.0.2.1",
            }
            for role in ("primary-controller", "ceph-osd")
        ]
        + [
            {
                "uid": "2",
                "fqdn": "node-2.example.com",
                "name": "node-2",
                "user_node_name": "node-2",
                "role": "compute",
            }
        ],
    }


def test_what_a_node_is_given_alone_goes_before_settings_of_the_same_name() -> None:
    common = facts.common("lab", SETTINGS, MEMBERS, ADDRESSES)
    node = facts.of_node(MEMBERS[0], ADDRESSES)
    assert node == {
        "uid": "1",
        "fqdn": "node-1.example.com",
        "name": "node-1",
        "user_node_name": "node-1",
        "roles": ["primary-controller", "ceph-osd"],
        "role": "primary-controller",
        "status": "ready",
        "internal_address": "10.0.0.1",
        "public_address": "192.0.2.1",
    }
    assert NodeFacts(common=common, node=node).whole["uid"] == "1"


def test_settings_say_what_the_deployment_is_called_and_where_the_master_is() -> None:
    said = {"deployment_id": 7, "master_ip": "10.20.0.2", "deployment_mode": "multinode", "nodes": "nonsense"}
    common = facts.common("lab", said, MEMBERS, ADDRESSES)
    assert (common["deployment_id"], common["master_ip"], common["deployment_mode"]) == (7, "10.20.0.2", "multinode")
    assert common["deployment_name"] == "lab"
    assert isinstance(common["nodes"], list)


def test_facts_for_all_nodes_that_are_too_large_are_refused_naming_the_largest() -> None:
    with pytest.raises(Invalid) as caught:
        facts.common("lab", {"plugins": "x" * 180_000, "tls": "y" * 40_000}, MEMBERS, ADDRESSES)
    message = str(caught.value)
    assert "the facts that all nodes have take 21" in message
    assert "may take 200; the largest are plugins 175 KiB, tls 39 KiB" in message
    assert "take them out of the deployment's settings" in message


def test_a_list_of_thousands_of_nodes_is_left_out() -> None:
    many = [Member(name=f"node-{number}.example.com", uid=str(number), roles=("compute",)) for number in range(5000)]
    assert "nodes" in facts.common("lab", {}, many[:300], {})
    assert "nodes" not in facts.common("lab", {"nodes": "somebody's"}, many, {})


def test_a_task_list_of_a_node_that_is_too_large_is_refused() -> None:
    node = facts.of_node(MEMBERS[0], {})
    assert facts.with_tasks(node, [{"id": "a"}])["tasks"] == [{"id": "a"}]
    with pytest.raises(
        Invalid, match=r"the facts of node-1.example.com take 4\d\d KiB, and may take 400; the largest are tasks"
    ):
        facts.with_tasks(node, ["x" * 1000] * 500)


def plan_of_two_nodes() -> tuple[TaskList, TaskPlan]:
    """a before b and c on each; c of n1 before d of n2 through a stage; e is skipped on n1."""
    tasks = TaskList(
        (
            Task(id="a", kind=TaskKind.PUPPET, parameters={"puppet_manifest": "/a.pp", "puppet_modules": "/m"}),
            Task(id="b", kind=TaskKind.SHELL, parameters={"cmd": "b", "timeout": 360}),
            Task(id="c", kind=TaskKind.UPLOAD_FILE, parameters={"path": "/c", "data": "x" * 5000}),
            Task(id="deploy", kind=TaskKind.STAGE),
            Task(id="d", kind=TaskKind.SHELL, parameters={"cmd": "d"}),
            Task(id="e", kind=TaskKind.SHELL, parameters={"cmd": "e"}),
        )
    )
    vertices = [(0, 0), (1, 0), (2, 0), (3, 2), (4, 1), (5, 0), (0, 1), (6, 2)]
    plan = TaskPlan(
        nodes=("n1", "n2", ""),
        tasks=("a", "b", "c", "deploy", "d", "e", "barrier.0"),
        task_of=[task for task, _ in vertices],
        node_of=[node for _, node in vertices],
        parents=[[], [0], [0], [2], [3], [], [], [0]],
        rank=[0] * len(vertices),
        barriers=frozenset({6}),
        skipped={5: "its condition is false"},
        parameters={1: {"cmd": "b on n1"}},
    )
    return tasks, plan


def test_a_node_has_its_own_list_with_priorities_that_rise_where_the_plan_orders() -> None:
    tasks, plan = plan_of_two_nodes()
    own = agendas(plan, tasks, {"n1": "1", "n2": "2"}, completed)
    assert [(each["id"], each["priority"], each["uids"]) for each in own["n1"]] == [
        ("a", 100, ["1"]),
        ("b", 200, ["1"]),
        ("c", 200, ["1"]),
    ]
    assert [(each["id"], each["priority"], each["uids"]) for each in own["n2"]] == [
        ("a", 100, ["2"]),
        ("d", 200, ["2"]),
    ]


def test_a_task_in_the_list_has_its_parameters_with_defaults_and_what_differs_on_the_node() -> None:
    tasks, plan = plan_of_two_nodes()
    puppet, shell, upload = agendas(plan, tasks, {"n1": "1", "n2": "2"}, completed)["n1"]
    assert (puppet["type"], puppet["parameters"]["timeout"], puppet["parameters"]["cwd"]) == ("puppet", 5400, "/")
    assert (shell["parameters"]["cmd"], shell["parameters"]["timeout"]) == ("b on n1", 360)
    assert upload["parameters"]["path"] == "/c"
    assert "data" not in upload["parameters"], "the text of a file is no fact"


def test_nothing_is_stored_once_for_each_pair_of_nodes() -> None:
    def size(count: int) -> int:
        members = [Member(name=f"n{number}.example.com", uid=str(number), roles=("r",)) for number in range(count)]
        whole = [facts.common("lab", {}, members, {}), *(facts.of_node(each, {}) for each in members)]
        return len(msgspec.json.encode(whole))

    assert size(400) < 4.5 * size(100)


def test_the_models_of_conditions_are_about_the_run_and_the_deployment() -> None:
    models = facts.models(SETTINGS, ClusterStatus.NEW, MEMBERS[1:], MEMBERS)

    def holds(language: Language, text: str) -> bool:
        return evaluate(parse(Expression(language, text)), models).holds

    assert holds(Language.SETTINGS, "cluster:status == 'new' and cluster:mode == 'ha_compact'")
    assert holds(Language.SETTINGS, "settings:storage.objects_ceph == true")
    assert holds(Language.API, "api.nodes_count() == 1")  # the admin node is none
    assert holds(Language.API, "api.role_in_deployment('compute') and not api.role_in_deployment('ceph-osd')")
    assert holds(Language.API, "api.role_in_cluster('ceph-osd')")


@pytest.mark.parametrize(
    ("newest", "status"),
    [
        (None, "new"),
        ("committing", "deployment"),
        ("running", "deployment"),
        ("stopping", "deployment"),
        ("successful", "operational"),
        ("failed", "error"),
        ("stopped", "stopped"),
    ],
)
def test_the_newest_run_says_how_the_deployment_stands(newest: str | None, status: str) -> None:
    assert facts.cluster_status(newest) == status


def test_conditions_see_each_node_with_its_roles_and_never_its_task_list() -> None:
    common = facts.common("lab", SETTINGS, MEMBERS, ADDRESSES)
    seen = facts.given(common, MEMBERS, ADDRESSES)
    assert seen(MEMBERS[1]).whole["roles"] == ["compute"]
    assert seen(None) == NodeFacts(common=common)
    stored = facts.with_tasks(facts.of_node(MEMBERS[1], ADDRESSES), [{"id": "a"}])
    assert facts.remembered(common, stored) == seen(MEMBERS[1]), "or everything would count as changed"


def test_names_in_parameters_stand_for_facts() -> None:
    settings = {"openstack_version": "liberty-9.0", "public_ssl": {"hostname": {"value": "cloud.example.com"}}}
    assert facts.names_of_all(facts.common("lab", settings, MEMBERS, ADDRESSES)) == {
        "CLUSTER_ID": "lab",
        "DEPLOYMENT_MODE": "ha_compact",
        "MASTER_IP": "10.0.0.9",
        "OPENSTACK_VERSION": "liberty-9.0",
        "VERSION": "liberty-9.0",
        "CN_HOSTNAME": "cloud.example.com",
    }
    plain = facts.names_of_all({"deployment_id": 7, "public_ssl": {"hostname": "x.example.com"}})
    assert plain == {"CLUSTER_ID": "7", "CN_HOSTNAME": "x.example.com"}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
#: What readers of YAML take for something else when it is bare.
TRICKY = """
yes No ON off y n ~ null NULL true 1e3 1.5e3 .5 5. 0o17 017 0x1F 0b1 1_000 1,000 12:30 12:30:45 190:20:30 2015-01-01
2015-01-01T10:00:00Z :symbol !ruby/object:Object &a *a <<  = - ? | > @ ` % # {a: [1], } ] , .inf -.inf .nan +1 -1 1.0 ---
... NaN Infinity
""".split()  # noqa: SIM905 - a list of fifty quoted words is no easier to read


@given_any(JSON)
def test_the_file_is_the_facts_for_python(value: Any) -> None:
    text = dumped(value)
    assert yaml.load(text, yaml.SafeLoader) == value
    assert yaml.load(text, yaml.CSafeLoader) == value


def tricky_facts() -> dict[str, Any]:
    texts = [
        *TRICKY,
        *(f" {word} " for word in TRICKY),
        "",
        " ",
        "a\nb",
        "a\n",
        "\ttab",
        "ü ☃ 🙂",
        "\u2028",
        "\x85",
        "x" * 500,
    ]
    numbers = [0, -1, 1.5, 1e20, 1e-7, 10**12, True, False, None]
    return {
        "texts": texts,
        "numbers": numbers,
        "keys": dict.fromkeys(texts, 1),
        "deep": [[[]], [{}], {"a": {"b": []}}],
    }


def test_the_file_is_the_facts_for_python_whatever_looks_like_something_else() -> None:
    value = tricky_facts()
    assert yaml.safe_load(facts.as_yaml(value)) == value
    assert yaml.load(facts.as_yaml(value), yaml.CSafeLoader) == value


@pytest.mark.skipif(shutil.which("ruby") is None, reason="no ruby on this machine")
def test_the_file_is_the_facts_for_ruby() -> None:
    value = tricky_facts()
    program = "require 'yaml'; require 'json'; puts JSON.generate(YAML.load(STDIN.read))"
    done = subprocess.run(
        ["ruby", "-e", program], input=facts.as_yaml(value), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == value


def test_what_is_the_same_object_twice_is_written_twice() -> None:
    shared = {"a": [1]}
    assert "&" not in dumped({"x": shared, "y": shared})
