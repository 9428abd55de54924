"""Task lists: files to tasks, and what is said about their slips, all of them in one pass."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.tasks import patterns, reading
from nodepool_ocb.tasks.documents import circles
from nodepool_ocb.tasks.kinds import JIGS
from nodepool_ocb.tasks.parameters import completed
from nodepool_ocb.tasks.tasklist import (
    Expression,
    Language,
    Policy,
    Relation,
    StrategyType,
    Task,
    TaskKind,
    TaskList,
    TaskStrategy,
)

SHELL = "type: shell, role: [x], parameters: {cmd: 'true'}"


def tasks(text: str, lenient: bool = False) -> TaskList:
    return reading.read_texts({"f.yaml": text}, lenient=lenient).tasks


def only(text: str) -> Task:
    (task,) = tasks(text).tasks
    return task


def problems(text: str, lenient: bool = False) -> list[str]:
    with pytest.raises(Invalid) as caught:
        tasks(text, lenient=lenient)
    return list(caught.value.problems)


def warnings(text: str, lenient: bool = False) -> list[str]:
    return list(reading.read_texts({"f.yaml": text}, lenient=lenient).warnings)


# -- what a task becomes --


def test_the_graph_of_a_deletion_is_read_and_its_preparations_of_a_boot_have_nothing_to_run() -> None:
    text = """\
- {id: t, type: move_to_bootstrap, role: ['/.*/'], parameters: {slave_name: {yaql_exp: $.a.b}, timeout: 180}}
- {id: node_erase, type: erase_node, role: ['/.*/'], requires: [t], parameters: {timeout: 180}}
"""
    prepares, erases = tasks(text).tasks
    assert (prepares.kind, dict(prepares.parameters)) == (TaskKind.SKIPPED, {})
    assert (erases.kind, JIGS[erases.kind], completed(erases)["method"]) == (
        TaskKind.ERASE_NODE,
        "task-erase",
        "overwrite",
    )
    assert [each for each in warnings(text) if "nothing to run here" in each]


def test_a_task_that_provisions_names_an_image() -> None:
    provision = only("- {id: t, type: provision, role: compute, parameters: {image: debian, disk: {serial: S1}}}")
    assert (provision.kind, JIGS[provision.kind]) == (TaskKind.PROVISION, "task-provision")
    assert completed(provision)["image"] == "debian"
    for without in ("", ", parameters: {disk: {serial: S1}}"):
        assert "image" in problems(f"- {{id: t, type: provision, role: compute{without}}}")[0]


def test_every_field_of_a_task_is_read() -> None:
    text = """
- id: ceph-mon
  type: puppet
  version: 2.1.0
  groups: [primary-controller, controller]
  requires: [netconfig]
  required_for: [deploy_end]
  cross-depends:
    - name: netconfig
    - {name: /net.*/, role: [primary-controller, /ceph-.*/], policy: any}
    - {name: deploy_end, role: null}
    - {name: netconfig, role: self}
  cross_depended_by: [{name: netconfig, role: '*'}]
  condition: settings:storage.objects_ceph.value == true
  parameters:
    puppet_manifest: /etc/puppet/ceph.pp
    timeout: 3600
    strategy: {type: parallel, amount: 3}
  fail_on_error: false
  reexecute_on: [deploy_changes]
  refresh_on: ['*']
  test_pre: {cmd: ruby x}
  test_post: {cmd: ruby y}
- {id: netconfig, type: shell, role: '*', parameters: {cmd: up, retries: 0}}
- {id: deploy_end, type: stage, trigger_rule: all_done}
"""
    ceph, netconfig, stage = tasks(text).tasks
    assert ceph == Task(
        id="ceph-mon",
        kind=TaskKind.PUPPET,
        version=(2, 1, 0),
        roles=("primary-controller", "controller"),
        requires=("netconfig",),
        required_for=("deploy_end",),
        cross_depends=(
            Relation("netconfig"),
            Relation("/net.*/", ("primary-controller", "/ceph-.*/"), Policy.ANY),
            Relation("deploy_end", None),
            Relation("netconfig", ("self",)),
        ),
        cross_depended_by=(Relation("netconfig", ("*",)),),
        condition=Expression(Language.SETTINGS, "settings:storage.objects_ceph.value == true"),
        parameters={"puppet_manifest": "/etc/puppet/ceph.pp", "timeout": 3600},
        strategy=TaskStrategy(StrategyType.PARALLEL, 3),
        fail_on_error=False,
        reexecute_on=("deploy_changes",),
        refresh_on=("*",),
        place="f.yaml:2",
    )
    assert (netconfig.roles, netconfig.version, netconfig.condition) == (("*",), (1, 0, 0), True)
    assert (stage.kind, stage.trigger_rule) == (TaskKind.STAGE, "all_done")


def test_a_group_has_its_nodes_tasks_strategy_and_tolerance() -> None:
    text = """
- id: compute
  type: group
  role: [compute]
  tasks: [a]
  parameters: {strategy: {type: parallel, amount: {yaql_exp: '$.n'}}, fault_tolerance: 10%}
- {id: osd, type: group, role: ceph-osd, fault_tolerance: -3}
- {id: a, type: shell, parameters: {cmd: 'true'}}
"""
    compute, osd, a = tasks(text).tasks
    assert compute.strategy == TaskStrategy(StrategyType.PARALLEL, Expression(Language.YAQL, "$.n"))
    assert (compute.tasks, compute.fault_tolerance, compute.parameters) == (("a",), "10%", {})
    assert osd.fault_tolerance == "-3"
    assert a.roles == ()  # it runs where its group does


@pytest.mark.parametrize(
    ("where", "roles"),
    [
        ("role: '*'", ("*",)),
        ("role: master", ("master",)),
        ("roles: [a, /b.*/]", ("a", "/b.*/")),
        ("groups: [a], role: [b]", ("b",)),
        ("groups: [a], roles: [b], tags: [c]", ("c",)),
        ("groups: [a], role: []", ("a",)),
    ],
)
def test_where_a_task_runs_is_said_by_tags_then_roles_then_groups(where: str, roles: tuple[str, ...]) -> None:
    assert only(f"- {{id: t, type: shell, {where}, parameters: {{cmd: a}}}}").roles == roles


@pytest.mark.parametrize(
    ("raw", "condition"),
    [
        ("settings:a.b == 'api.x'", Expression(Language.SETTINGS, "settings:a.b == 'api.x'")),
        ("api.role_in_cluster('a:b')", Expression(Language.API, "api.role_in_cluster('a:b')")),
        ("{yaql_exp: changed($.x)}", Expression(Language.YAQL, "changed($.x)")),
        ("{condition: 'settings:a', strict: false}", Expression(Language.SETTINGS, "settings:a", strict=False)),
        ("false", False),
        ("null", True),
        ("''", True),
    ],
)
def test_the_language_of_a_condition_is_known_by_its_words(raw: str, condition: bool | Expression) -> None:
    quoted = f'"{raw}"' if raw.startswith(("settings", "api")) else raw
    assert only(f"- {{id: t, {SHELL}, condition: {quoted}}}").condition == condition


def test_anchors_and_merge_keys_are_read() -> None:
    text = "- &a {id: a, type: shell, role: [x], parameters: &p {cmd: a}}\n- {<<: *a, id: b, requires: [a]}"
    a, b = tasks(text).tasks
    assert (b.requires, b.parameters) == (("a",), a.parameters)


def test_files_are_one_list_in_their_order_and_every_task_says_its_place() -> None:
    texts = {
        "b/tasks.yaml": f"\n- {{id: b, requires: [a], {SHELL}}}",
        "a/tasks.yaml": f"- {{id: a, {SHELL}}}",
        "c": "# no",
    }
    found = reading.read_texts(texts, "release 9.0").tasks.tasks
    assert [(task.id, task.place, task.origin) for task in found] == [
        ("b", "b/tasks.yaml:2", "release 9.0"),
        ("a", "a/tasks.yaml:1", "release 9.0"),
    ]


# -- slips that are read kindly --


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("- {id: t, type: rsync, role: x, parameters: {src: /a, dst: /b}}", "f.yaml:1: t.type: rsync is called sync"),
        (
            f"- {{id: t, {SHELL}, strategy: {{type: one_by_one}}}}",
            "f.yaml:1: t.strategy: belongs into parameters; it is read as if it stood there",
        ),
        (
            f"- {{id: t, {SHELL}, required_for: [deploy]}}\n- {{id: deploy_end, type: stage}}",
            "f.yaml:1: t.required_for[0]: deploy is called deploy_end in this list; it is read as that",
        ),
        (
            f"- {{id: t, {SHELL}, requires: [deploy_end]}}\n- {{id: deploy, type: stage}}",
            "f.yaml:1: t.requires[0]: deploy_end is called deploy in this list; it is read as that",
        ),
        (
            f"- {{id: t, {SHELL}, required_for: [deploy]}}",
            "f.yaml:1: t.required_for[0]: this list has no stage deploy; it is read as if it had one",
        ),
        (
            "- {id: t, type: shell, parameters: {cmd: a}}",
            "f.yaml:1: t: says nowhere where it runs: it is read with role: [t], as all nodes with that role",
        ),
        (
            "- {id: t, type: upload_file, role: x, parameters: {path: /a}}",
            "f.yaml:1: t: uploads no data, which Fuel made itself; it is read as skipped",
        ),
        (
            "- {id: t, type: puppet, role: x, parameters: {puppet_manifests: /a}}",
            "f.yaml:1: t.parameters.puppet_manifests: is called puppet_manifest; it is read as that",
        ),
        (f"- {{id: t, groups: [y], {SHELL}}}", "f.yaml:1: t.groups: has no meaning beside role"),
        (
            f"- {{id: t, {SHELL}, cross-depends: [{{name: /nobody.*/}}]}}",
            "f.yaml:1: t.cross-depends[/nobody.*/].name: /nobody.*/ matches no task of this list",
        ),
        (
            "- {id: primary-controller, type: group, role: [primar-controller]}",
            "f.yaml:1: primary-controller.role[0]: role primar-controller is nearly primary-controller, which this list has, too;"
            " nodes need the one that is meant",
        ),
        (
            "- {id: g, type: group, role: x, parameters: {strategy: {type: one_by_one, amount: 2}}}",
            "f.yaml:1: g.parameters.strategy.amount: has no meaning beside one_by_one",
        ),
        (
            f"- {{id: t, id: t, {SHELL}}}",
            "f.yaml:1: [0].id: key is there twice with one value, first in line 1; remove one of them",
        ),
    ],
)
def test_a_slip_by_which_nothing_is_lost_is_a_warning(text: str, warning: str) -> None:
    assert warnings(text) == [warning]


def test_kind_readings_have_their_effect() -> None:
    rsync = only("- {id: t, type: rsync, role: x, parameters: {src: /a, dst: /b}, strategy: {type: one_by_one}}")
    assert (rsync.kind, rsync.strategy) == (TaskKind.SYNC, TaskStrategy(StrategyType.ONE_BY_ONE))
    upload, _ = tasks("- {id: t, type: upload_file, role: x, required_for: [deploy]}").tasks
    assert upload.kind is TaskKind.SKIPPED
    own = only("- {id: controller, type: shell, parameters: {cmd: a}}")
    assert own.roles == ("controller",)
    t, stage = tasks(f"- {{id: t, {SHELL}, required_for: [deploy]}}\n- {{id: deploy_end, type: stage}}").tasks
    assert t.required_for == (stage.id,) == ("deploy_end",)
    _, added = tasks(f"- {{id: t, {SHELL}, required_for: [deploy]}}").tasks
    assert (added.id, added.kind) == ("deploy", TaskKind.STAGE)


# -- slips that are refused --


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"- {{{SHELL}}}", "[0]: key `id` is missing"),
        ("- {id: t}", "t: key `type` is missing"),
        (
            "- {id: t, type: shel}",
            "t.type: must be one of group, stage, skipped, shell, master_shell, puppet, upload_file,",
        ),
        ("- {id: t, type: shel}", "did you mean `shell`?"),
        (
            "- {id: t, type: erase_node, parameters: {method: none}}",
            "t.parameters.method: must be one of signatures, discard,",
        ),
        (f"- {{id: T.x, {SHELL}}}", "T.x.id: must be a name of at most 63 small letters"),
        (f"- {{id: facts, {SHELL}}}", "facts.id: must not be facts, which is the task that every run begins with"),
        (
            f"- {{id: t, {SHELL}, cross-depened-by: []}}",
            "unknown key `cross-depened-by`; did you mean `cross-depended-by`?",
        ),
        (
            f"- {{id: t, {SHELL}, requires: [a], requires: [b]}}",
            "t.requires: key is there twice, first in line 1; remove one",
        ),
        (
            f"- {{id: t, {SHELL}, requires: [u]}}\n- {{id: v, {SHELL}}}",
            't.requires[0]: must name a task of this list, and is "u"',
        ),
        (f"- {{id: netconfig, {SHELL}}}\n- {{id: t, {SHELL}, requires: [netcnfig]}}", "did you mean `netconfig`?"),
        (
            f"- {{id: t, {SHELL}, required_for: [dploy]}}",
            't.required_for[0]: must name a task of this list, and is "dploy"',
        ),
        (f"- {{id: t, {SHELL}, requires: [deploy]}}", 't.requires[0]: must name a task of this list, and is "deploy"'),
        (
            f"- {{id: t, {SHELL}, cross-depends: [{{name: u}}]}}",
            "t.cross-depends[u].name: must name a task of this list",
        ),
        ("- {id: g, type: group, role: x, tasks: [u]}", 'g.tasks[0]: must name a task of this list, and is "u"'),
        (
            "- {id: g, type: group, role: x, tasks: [g]}",
            "must name a task that runs on the group's nodes, and g is a group",
        ),
        (f"- {{id: t, {SHELL}, tasks: [t]}}", "t.tasks: belongs to a group, and this is of type shell; remove it"),
        (f"- {{id: t, {SHELL}, fault_tolerance: 2}}", "t.fault_tolerance: belongs to a group"),
        (f"- {{id: t, {SHELL}, trigger_rule: all_done}}", "t.trigger_rule: belongs to a stage"),
        (
            f"- {{id: t, {SHELL}, stage: pre_deploymnt}}",
            'must name a stage, and is "pre_deploymnt"; did you mean `pre_deployment`?',
        ),
        (
            "- {id: t, type: shell, role: ['^ceph.*'], parameters: {cmd: a}}",
            'a pattern stands between slashes: "/^ceph.*/"',
        ),
        (f"- {{id: t, {SHELL}, cross-depends: [{{name: (primary-)?t}}]}}", 'between slashes: "/(primary-)?t/"'),
        ("- {id: t, type: shell, role: ['/a(/'], parameters: {cmd: a}}", 't.role[0]: "/a(/" is no regular expression'),
        ("- {id: t, type: shell, role: ['/(a+)+b/'], parameters: {cmd: a}}", "may be matched in too many ways"),
        (f'- {{id: t, {SHELL}, condition: "settings:a ;== true"}}', "t.condition: at character 12"),
        (f'- {{id: t, {SHELL}, condition: "api.__class__"}}', "t.condition: at character"),
        (f"- {{id: t, {SHELL}, condition: {{yaql_exp: 'changed($.x'}}}}", "t.condition: at character"),
        (
            "- {id: t, type: upload_file, role: x, parameters: {path: /a, data: {yaql_exp: '$.toYml('}}}",
            "t.parameters.data: at character",
        ),
        (
            "- {id: g, type: group, role: x, parameters: {strategy: {type: parallel, amount: {yaql_exp: '1 +'}}}}",
            "g.parameters.strategy.amount: at character",
        ),
        ("- {id: t, type: shell, role: x}", "t: key `parameters` is missing; shell needs cmd"),
        ("- {id: t, type: shell, role: x, parameters: {timeout: 3}}", "t.parameters: key `cmd` is missing"),
        ("- {id: t, type: puppet, role: x}", "t: key `puppet_manifest` is missing"),
        ("- {id: t, type: upload_file, role: x, parameters: {data: a}}", "t.parameters: key `path` is missing"),
        ("- {id: t, type: sync, role: x, parameters: {src: /a}}", "t.parameters: key `dst` is missing"),
        (
            "- {id: t, type: sync, role: x, parameters: {src: a, dst: /a}}",
            "must be a directory from the root, or rsync://HOST",
        ),
        (
            "- {id: t, type: copy_files, role: x, parameters: {files: []}}",
            "t.parameters.files: must have at least 1 item",
        ),
        (
            "- {id: t, type: shell, role: x, parameters: {cmd: a, timeout: 0}}",
            "t.parameters.timeout: must be above 0, and is 0",
        ),
        (
            "- {id: t, type: shell, role: x, parameters: {cmd: a, retries: 1.5}}",
            "t.parameters.retries: must be a whole number",
        ),
        (
            "- {id: t, type: shell, role: x, parameters: {cmd: a, interval: -1}}",
            "t.parameters.interval: must be at least 0",
        ),
        (
            "- {id: t, type: shell, role: x, parameters: {cmd: a, cwd: tmp}}",
            "t.parameters.cwd: must be a directory from the root",
        ),
        (
            "- {id: t, type: shell, role: x, parameters: {cmd: a, tiemout: 1}}",
            "unknown key `tiemout`; did you mean `timeout`?",
        ),
        (f"- {{id: t, {SHELL}, version: 2}}", "t.version: must be text, and is 2"),
        (f"- {{id: t, {SHELL}, version: '2.0'}}", "t.version: must be a version such as 2.0.0"),
        (f"- {{id: t, {SHELL}, cross-depends: [{{name: t, policy: some}}]}}", "policy: must be one of all, any"),
        (
            "- {id: g, type: group, role: x, fault_tolerance: 200%}",
            "g.fault_tolerance: must be a number, such as 2 or -3",
        ),
        (
            "- {id: g, type: group, role: x, parameters: {strategy: {type: parallel, amount: 0}}}",
            "g.parameters.strategy.amount: must be at least 1, and is 0",
        ),
        (
            "- {id: g, type: group, role: x, strategy: {type: parallel}, parameters: {strategy: {type: parallel}}}",
            "g.strategy: stands beside parameters and in them; remove one of them",
        ),
        (
            "- {id: g, type: group, role: x, condition: 'false'}",
            "g.condition: has no effect on a group; give it to its tasks",
        ),
        (
            f"- {{id: a, {SHELL}}}\n- {{id: b, {SHELL}, cross-depends: [{{name: a, role: null}}]}}",
            "b.cross-depends[a].role: means no node, and a is no stage; name roles, or leave it out for all nodes",
        ),
        (
            f"- {{id: a, {SHELL}}}\n- {{id: b, {SHELL}, cross-depended-by: [{{name: a, role: []}}]}}",
            "b.cross-depended-by[a].role: means no node, and a is no stage; name roles, or leave it out for all nodes",
        ),
        ("- {id: a, type: shell", "is not YAML"),
        ("id: a\ntype: shell", "must be a list of tasks, each begun with `- id:`, and is a mapping"),
        ("- a", "[0]: must be a task, a mapping with id and type, and is text"),
    ],
)
def test_a_slip_by_which_something_is_lost_is_refused_with_its_place_and_the_next_step(text: str, problem: str) -> None:
    found = problems(text)
    assert all(each.startswith("f.yaml:") for each in found)
    assert any(problem in each for each in found), found


@pytest.mark.parametrize("path", ["etc/x", "../x", "/etc/../x", "/a/..", "{DIR}/x"])
@pytest.mark.parametrize(
    "parameters",
    [
        "type: upload_file, parameters: {{path: '{0}', data: x}}",
        "type: upload_files, parameters: {{nodes: {{'1': [{{dst: '{0}', data: x}}]}}}}",
        "type: upload_files, parameters: {{nodes: [{{uid: 1, files: [{{dst: '{0}', data: x}}]}}]}}",
        "type: copy_files, parameters: {{files: [{{src: /a, dst: '{0}'}}]}}",
        "type: sync, parameters: {{src: /a, dst: '{0}'}}",
    ],
)
def test_no_upload_leaves_its_place(parameters: str, path: str) -> None:
    (problem,) = problems(f"- {{id: t, role: x, {parameters.format(path)}}}")
    assert "must be a path from the root without `..`" in problem


def test_names_that_only_look_like_a_way_up_are_paths() -> None:
    assert only("- {id: t, role: x, type: upload_file, parameters: {path: /a/..b/c../d, data: x}}").parameters["path"]


def test_an_id_that_is_there_twice_is_refused_with_both_places() -> None:
    texts = {"a/tasks.yaml": f"- {{id: t, {SHELL}}}", "b/tasks.yaml": f"\n- {{id: t, {SHELL}}}"}
    with pytest.raises(Invalid) as caught:
        reading.read_texts(texts)
    (problem,) = caught.value.problems
    assert problem == (
        "b/tasks.yaml:2: t.id: must be an id of its own, and is that of a/tasks.yaml:1; rename one of them"
    )


def test_every_fault_of_every_file_is_said_at_once_and_by_line() -> None:
    texts = {
        "a": "- {id: t, type: shel}\n- {id: u, type: shell, role: x, requires: [w], parameters: {}}",
        "b": f"- {{id: v, {SHELL}, requires: [nobody], bad: 1}}",
    }
    with pytest.raises(Invalid) as caught:
        reading.read_texts(texts)
    assert [problem.split(": ")[0] for problem in caught.value.problems] == ["a:1", "a:2", "a:2", "b:1", "b:1"]


def test_what_follows_from_a_file_that_cannot_be_read_is_not_said() -> None:
    texts = {"a": "- {id: t", "b": f"- {{id: v, {SHELL}, requires: [t]}}"}
    with pytest.raises(Invalid) as caught:
        reading.read_texts(texts)
    assert len(caught.value.problems) == 1


def test_a_release_that_fuel_read_is_read_leniently_as_fuel_read_it() -> None:
    text = """
- id: a
  type: shell
  role: [x]
  requires: [b]
  requires: [c]
  cross-depened-by: [{name: b}]
  cross-depends: [{name: nobody}, {name: (primary-)?b}]
  parameters: {cmd: 'true'}
- {id: b, type: shell, role: x, parameters: {cmd: b}}
- {id: c, type: shell, role: x, parameters: {cmd: c}}
"""
    assert len(problems(text)) == 4
    found = reading.read_texts({"f.yaml": text}, lenient=True)
    assert found.tasks.by_id["a"].requires == ("c",)
    assert len(found.warnings) == 4
    assert any("first in line 5; this value counts" in warning for warning in found.warnings)


def test_a_lenient_reading_lets_conditions_miss_settings_as_fuel_did() -> None:
    """nailgun evaluates each condition of a task with strict=False."""
    text = f"""
- {{id: a, {SHELL}, condition: 'settings:x.enabled'}}
- {{id: b, {SHELL}, condition: {{condition: 'settings:x.enabled', strict: true}}}}
"""
    found = {lenient: [each.condition for each in tasks(text, lenient).tasks] for lenient in (True, False)}
    assert [each.strict for each in found[True]] == [False, True]  # type: ignore[union-attr]
    assert [each.strict for each in found[False]] == [True, True]  # type: ignore[union-attr]


def test_what_fuel_refused_is_refused_also_by_a_lenient_reading() -> None:
    text = f"- {{id: t, {SHELL}, requires: [u]}}\n- {{id: v, {SHELL}, required_for: [w]}}\n- {{id: d, type: erase}}"
    assert len(problems(text, lenient=True)) == len(problems(text)) == 3


def test_a_stage_that_somebody_waits_for_must_be_written() -> None:
    text = f"- {{id: a, {SHELL}, required_for: [deploy]}}\n- {{id: b, {SHELL}, requires: [deploy]}}"
    assert [problem.split(": ")[1] for problem in problems(text)] == ["a.required_for[0]", "b.requires[0]"]


# -- circles --


def test_a_circle_is_told_by_one_shortest_way_with_places() -> None:
    text = "\n".join(
        f"- {{id: {name}, {SHELL}, requires: [{needs}]}}"
        for name, needs in {"a": "b", "b": "c, d", "c": "a", "d": "e", "e": "a"}.items()
    )
    (problem,) = problems(text)
    assert problem == (
        "f.yaml:1: a.requires[0]: must not make a task wait for itself, and does on nodes with role x:"
        " a (f.yaml:1) -> b (f.yaml:2) -> c (f.yaml:3) -> a; take one of these away"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"- {{id: a, {SHELL}, requires: [a]}}",
        f"- {{id: a, {SHELL}, required_for: [b]}}\n- {{id: b, {SHELL}, required_for: [a]}}",
        "- {id: a, type: group, role: x, requires: [b]}\n- {id: b, type: group, role: y, requires: [a]}",
        "- {id: a, type: stage, requires: [b]}\n- {id: b, type: stage, requires: [a]}",
        f"- {{id: s, type: stage, requires: [a]}}\n- {{id: a, {SHELL}, requires: [s]}}",
        "- {id: a, type: shell, role: '*', requires: [b], parameters: {cmd: a}}\n"
        "- {id: b, type: shell, role: [/y.*/, yes], requires: [a], parameters: {cmd: a}}",
        f"- {{id: g, type: group, role: x, tasks: [b]}}\n- {{id: a, {SHELL}, requires: [b]}}\n"
        "- {id: b, type: shell, role: y, requires: [a], parameters: {cmd: b}}",
        f"- {{id: aa, {SHELL}, requires: [/a.*/]}}\n- {{id: ab, {SHELL}, requires: [aa]}}",
    ],
)
def test_a_task_that_waits_for_itself_on_a_node_is_refused(text: str) -> None:
    (problem,) = problems(text)
    assert "must not make a task wait for itself" in problem


@pytest.mark.parametrize(
    "text",
    [
        f"- {{id: a, {SHELL}, requires: [b]}}\n- {{id: b, type: shell, role: y, requires: [a], parameters: {{cmd: b}}}}",
        "- {id: a, type: shell, role: master, requires: [b], parameters: {cmd: a}}\n"
        "- {id: b, type: shell, role: '*', requires: [a], parameters: {cmd: b}}",
        f"- {{id: aa, {SHELL}, requires: [/a.*/]}}\n- {{id: ab, {SHELL}}}",
    ],
)
def test_requirements_that_never_meet_on_a_node_are_no_circle(text: str) -> None:
    tasks(text)


def test_more_patterns_than_can_be_compared_in_time_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"- {{id: a, {SHELL}, requires: [/b/, /b/, /b.*/]}}\n- {{id: b, {SHELL}}}"
    monkeypatch.setattr(patterns, "MATCHED", 3)
    assert problems(text) == [
        "f.yaml:1: a.requires[2]: is one pattern too many for 2 tasks; name the tasks that are meant"
    ]
    monkeypatch.setattr(patterns, "MATCHED", 4)
    tasks(text)


def test_requirements_beyond_a_million_are_left_to_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"- {{id: a, {SHELL}, requires: [/b.*/]}}\n- {{id: b, {SHELL}, requires: [a]}}"
    assert len(problems(text)) == 1
    monkeypatch.setattr(circles, "MOST", 1)
    tasks(text)


# -- files --


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_directory_is_every_tasks_yaml_below_it_by_name(tmp_path: Path) -> None:
    write(tmp_path / "b" / "tasks.yaml", f"- {{id: b, {SHELL}}}")
    write(tmp_path / "a" / "deep" / "tasks.yaml", f"- {{id: a, {SHELL}}}")
    write(tmp_path / "a" / "other.yaml", "- no task")
    found = reading.files(tmp_path)
    assert list(found.texts) == ["a/deep/tasks.yaml", "b/tasks.yaml"]
    assert [task.place for task in reading.read_files([tmp_path]).tasks.tasks] == [
        f"{tmp_path}/a/deep/tasks.yaml:1",
        f"{tmp_path}/b/tasks.yaml:1",
    ]


def test_a_single_file_may_have_any_name(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.yml", f"- {{id: b, {SHELL}}}")
    assert list(reading.files(path).texts) == ["tasks.yaml"]
    assert reading.read_files([path]).tasks.tasks[0].place == f"{path}:1"


def test_no_link_leads_out_of_the_directory_and_each_file_is_read_once(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / "tasks.yaml", f"- {{id: outside, {SHELL}}}")
    root = tmp_path / "root"
    write(root / "a" / "tasks.yaml", f"- {{id: a, {SHELL}}}")
    write(root / "b" / "list.yaml", f"- {{id: b, {SHELL}}}")
    (root / "b" / "tasks.yaml").symlink_to("list.yaml")
    (root / "again").symlink_to(root / "a")
    (root / "z").mkdir()
    (root / "z" / "tasks.yaml").symlink_to(root / "a" / "tasks.yaml")
    (root / "loop").symlink_to(root)
    (root / "c").symlink_to(outside.parent)
    (root / "tasks.yaml").symlink_to(outside)
    (root / "a" / "itself").mkdir()
    (root / "a" / "itself" / "tasks.yaml").symlink_to("tasks.yaml")
    found = reading.read_files([root])
    assert [task.id for task in found.tasks.tasks] == ["a", "b"]
    assert [warning.split(": ")[0] for warning in found.warnings] == [
        f"{root}/a/itself/tasks.yaml",
        f"{root}/c",
        f"{root}/tasks.yaml",
    ]


def test_every_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / name / "tasks.yaml", "").write_bytes(b"- \xff")
    with pytest.raises(Invalid) as caught:
        reading.files(tmp_path)
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [
        f"{tmp_path}/{name}/tasks.yaml:1" for name in "ab"
    ]


def test_a_directory_without_lists_and_a_path_that_is_not_there_are_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"holds no tasks\.yaml"):
        reading.read_files([tmp_path])
    with pytest.raises(NotFound, match="does not exist"):
        reading.read_files([tmp_path / "nothing"])


def test_too_many_files_and_too_much_text_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        write(tmp_path / name / "tasks.yaml", f"- {{id: {name}, {SHELL}}}")
    monkeypatch.setattr(reading, "FILES", 2)
    with pytest.raises(Invalid, match="more than 2 files"):
        reading.read_files([tmp_path])
    monkeypatch.setattr(reading, "FILES", 3)
    monkeypatch.setattr(reading, "BYTES", 100)
    with pytest.raises(Invalid, match="larger than"):
        reading.read_files([tmp_path])


@pytest.mark.long
def test_ten_thousand_tasks_in_a_chain_are_read() -> None:
    entries = [f"- {{id: t{n}, {SHELL}, requires: [t{n - 1}]}}" for n in range(1, 10_000)]
    entries.insert(0, f"- {{id: t0, {SHELL}}}")
    began = time.process_time()
    found = reading.read_texts({"a": "\n".join(entries[:5_000]), "b": "\n".join(entries[5_000:])})
    assert len(found.tasks.tasks) == 10_000
    assert time.process_time() - began < 30


def test_one_task_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(f"- {{id: t{n}, {SHELL}}}" for n in range(4))
    monkeypatch.setattr(reading, "TASKS", 3)
    with pytest.raises(Invalid, match=r"f\.yaml:4: a list has at most 3 tasks"):
        tasks(text)
