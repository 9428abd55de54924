"""The plan from a world to what site files want, and the way back: what a world says, planned into an empty one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nodepool_ocb.engine import binding, commands
from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.errors import Conflict, Invalid, NotFound, OcbError
from nodepool_ocb.model.drift import Checks
from nodepool_ocb.model.records import Attrib, Check, DeploymentState, State
from tests.site.scenes import NOW, ROLES, Scene, empty, wanted, with_roles

SITE = """\
site: 1
deployments:
  lab: {state: COMMITTED, roles: {base: {user: {size: 1}}}}
  desk: {parent: lab}
nodes:
  n1.example.com:
    deployment: lab
    tags: [web]
    noderoles: {top: {state: COMMITTED, user: {a: 1}}}
  n2.example.com:
    deployment: desk
    noderoles: [member, all]
  n3.example.com:
    deployment: desk
    noderoles: {member: null}
"""

CHECKED = """\
site: 1
deployments:
  lab: {checks: {schedule: "0 3 * * *", refresh: true}}
"""


def test_what_is_wanted_is_there_afterwards_with_all_that_it_needs() -> None:
    site = Scene(with_roles())
    site.apply(SITE)
    world = site.world
    assert sorted(vertex.name.partition(".")[0] for vertex in world.vertices()) == [
        "all@n2", "base@n1", "member@n2", "member@n3", "middle@n1", "top@n1",
    ]  # fmt: skip
    assert world.deployments["lab"].record.state is DeploymentState.COMMITTED
    assert world.deployments["desk"].record.state is DeploymentState.PROPOSED
    assert world.deployment_roles["lab", "base"].record.user == {"size": 1}
    top, node = world.vertex("top@n1.example.com"), world.nodes["n1.example.com"].record
    assert top is not None
    assert top.record.state is State.BLOCKED
    assert node is not None
    assert (node.tags, node.addresses) == (("web",), ("n1.example.com",))
    assert [each.value for each in site.kept.values()] == [{"a": 1}]


def test_a_schedule_of_checks_is_made_changed_and_written_down() -> None:
    site = Scene(with_roles())
    site.apply(CHECKED)
    checks = site.world.deployments["lab"].record.checks
    assert checks == Checks(schedule="0 3 * * *", since=NOW.now, refresh=True)
    assert site.plan(CHECKED).steps == ()
    assert site.export()["deployments"]["lab"]["checks"] == {"schedule": "0 3 * * *", "refresh": True}
    site.apply("site: 1\ndeployments: {lab: {state: COMMITTED}}\n")
    assert site.world.deployments["lab"].record.checks == checks
    again = Scene(with_roles())
    again.apply(site.exported())
    assert again.world.deployments["lab"].record.checks == checks
    with pytest.raises(Invalid, match=r":3: .*is no schedule"):
        site.plan(CHECKED.replace("0 3 * * *", "0 25 * * *"))


def test_members_of_a_cluster_are_bound_before_what_waits_for_all_of_them() -> None:
    site = Scene(with_roles())
    site.apply(SITE)
    waiting = site.world.vertex("all@n2.example.com")
    assert waiting is not None
    assert waiting.record.parents == ("member@*desk",)


def test_a_second_time_there_is_nothing_to_do() -> None:
    site = Scene(with_roles())
    site.apply(SITE)
    again = site.plan(SITE)
    assert (again.steps, again.transactions) == ((), ())
    assert again.world is site.world, "a large world is not copied for nothing"


def test_a_plan_leaves_the_world_as_it_is() -> None:
    site = Scene(with_roles())
    before = site.export()
    planned = site.plan(SITE)
    assert planned.steps
    assert planned.world is not site.world
    assert site.export() == before


@pytest.mark.parametrize("small", [False, True])
def test_a_crash_after_any_transaction_and_a_repeat_end_the_same(monkeypatch: pytest.MonkeyPatch, small: bool) -> None:
    monkeypatch.setattr("nodepool_ocb.model.limits.MOST_CHANGES", 6 if small else 250)
    whole = Scene(with_roles())
    whole.apply(SITE)
    for source in (SITE, whole.exported()):
        count = len(Scene(with_roles()).plan(source).transactions)
        assert count > (10 if small else 2)
        for done in range(count):
            site = Scene(with_roles())
            site.apply(source, first=done)
            site.apply(source)
            assert site.export() == whole.export(), done
            assert not site.plan(source).steps


def test_omitted_fields_stay_unchanged() -> None:
    site = Scene(with_roles())
    site.apply(SITE)
    before = site.export()
    site.apply("site: 1\nnodes: {n1.example.com: {rack: r7}}\n")
    after = site.export()
    assert after["nodes"]["n1.example.com"].pop("rack") == "r7"
    assert after == before


def test_the_guard_of_disks_is_set_taken_away_and_written_down() -> None:
    site = Scene(with_roles())
    site.apply("site: 1\nnodes: {n1.example.com: {allow_install: true}, n2.example.com: {}}\n")
    given = {name: each.get("allow_install", False) for name, each in site.export()["nodes"].items()}
    assert given == {"n1.example.com": True, "n2.example.com": False}
    site.apply("site: 1\nnodes: {n1.example.com: {allow_install: false}}\n")
    node = site.world.nodes["n1.example.com"].record
    assert node is not None
    assert not node.allow_install


def test_a_changed_attribute_opens_its_deployment_for_the_while_and_a_crash_in_between_is_mended() -> None:
    site = Scene(with_roles())
    site.apply(SITE)
    other = SITE.replace("a: 1", "a: 2")
    steps = [(step.change, step.kind, step.name) for step in site.plan(other).steps]
    assert steps == [
        ("propose", "deployment", "lab"),
        ("change", "attributes", "top@n1.example.com"),
        ("commit", "deployment", "lab"),
    ]
    site.apply(other, first=1)
    assert site.plan(other).steps
    site.apply(other)
    assert site.world.deployments["lab"].record.state is DeploymentState.COMMITTED
    assert [each.value for each in site.kept.values()] == [{"a": 2}]


def test_a_committed_deployment_of_whose_state_nothing_is_said_is_not_opened() -> None:
    site = Scene(with_roles())
    site.apply(SITE)
    with pytest.raises(
        Conflict, match=r"site\.yaml:3: deployments\.lab: deployment lab is COMMITTED.*deployment propose lab"
    ):
        site.plan("site: 1\ndeployments:\n  lab: {roles: {base: {user: {size: 2}}}}\n")


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        ("nodes:\n  n1.example.com: {noderoles: [tip]}", NotFound, r":3: .*role tip is not known; did you mean `top`\?"),
        ("nodes:\n  n1.example.com: {noderoles: [quux]}", NotFound, r":3: .*role quux is not known; import its barclamp"),
        ("deployments: {lab: {roles: {bas: {}}}}", NotFound, r"role bas is not known; did you mean `base`\?"),
        ("nodes:\n  n1.example.com: {deployment: lad}", NotFound, ":3: .*deployment lad does not exist; create it: nodepool"),
        ("nodes:\n  n1.example.com: {deployment: sytem}", NotFound, r"did you mean `system`\? Or create it: nodepool-ocb"),
        ("nodes:\n  n1.example.com: {noderoles: [rival, top]}", Conflict, r":3: .*conflicts with"),
        ("nodes:\n  n1.example.com:\n    noderoles: {all: {parents: [member@n9.example.com]}}", NotFound, ":4: .*n9"),
        ("roles: {base: {barclamp: b, jig: noop, flags: [discovery]}}\n"
         "nodes:\n  n1.example.com:\n    noderoles: {base: {parents: [once@n9.example.com]}}",
         Conflict, "each new node gets this role: leave the key out here, or write `whole: true`"),
        ("nodes: {n1.example.com: {addresses: [1.2.3]}}", Invalid, ":2: .*is neither a host name nor an address"),
        ("deployments: {a: {parent: b}, b: {parent: a}}", Invalid, "deployments below each other"),
        ("roles:\n  loop: {barclamp: c, jig: noop, requires: [loop2]}\n  loop2: {barclamp: c, jig: noop, requires: [loop]}",
         Invalid, ":3: .*circle"),
        ("roles: {top: {barclamp: other, jig: noop}}", Invalid, ":2: .*belongs to barclamp b"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_line_before_anything_is_written(
    text: str, error: type[OcbError], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        Scene(with_roles()).plan(f"site: 1\n{text}\n")


def test_what_is_bound_otherwise_is_refused_with_the_way() -> None:
    site = Scene(with_roles())
    site.apply(SITE)
    for said, sentence in (
        ("{top: {deployment: desk}}", "top@n1.example.com is bound in deployment lab, not in desk; first: .*unbind"),
        (
            "{top: {parents: []}}",
            "top@n1.example.com waits for middle@n1.example.com, not for nothing; first: .*unbind",
        ),
    ):
        with pytest.raises(Conflict, match=sentence):
            site.plan(f"site: 1\nnodes: {{n1.example.com: {{noderoles: {said}}}}}\n")


def test_a_destructive_role_that_was_done_is_not_done_again_in_a_cluster_that_is_made_anew() -> None:
    first = Scene(with_roles())
    first.apply("site: 1\nnodes: {n1.example.com: {noderoles: {once: {state: COMMITTED}}}}\n")
    done = first.world.vertex("once@n1.example.com")
    assert done is not None
    record = done.record.amended(state=State.ACTIVE, once="done")
    first.world.put_noderole("n1.example.com", "once", record, done.version + 1)
    second = Scene(empty())
    second.apply(first.exported())
    again = second.world.vertex("once@n1.example.com")
    assert again is not None
    assert again.record.state is State.ACTIVE
    assert second.export() == first.export()


def test_new_nodes_get_the_roles_for_new_nodes_but_not_where_the_file_is_whole() -> None:
    for head, bound in (("site: 1", ["found"]), ("site: 1\nwhole: true", [])):
        site = Scene(with_roles())
        site.apply(
            f"{head}\nroles: {{found: {{barclamp: b, jig: noop, flags: [discovery]}}}}\nnodes: {{n1.example.com: {{}}}}\n"
        )
        assert [vertex.role for vertex in site.world.vertices()] == bound


def test_a_secret_is_written_as_a_reference_and_refused_in_plain_text_without_being_repeated() -> None:
    role = "roles: {vault: {barclamp: b, jig: noop, attribs: [{name: key, map: a/key, secret: true}]}}"
    for where in (
        "deployments: {{lab: {{roles: {{vault: {{user: {0}}}}}}}}}",
        "nodes: {{n1.x.y: {{noderoles: {{vault: {{user: {0}}}}}}}}}",
    ):
        site = Scene(with_roles())
        with pytest.raises(Invalid, match="a/key of role vault is secret, and stands here in plain text") as refused:
            site.plan(f"site: 1\n{role}\n{where.format('{a: {key: hunter2}}')}\n")
        assert "hunter2" not in str(refused.value)
        text = f"site: 1\n{role}\n{where.format('{a: {key: {$secret: env:NODEPOOL_OCB_SECRET_A}}}')}\n"
        site.apply(text)
        assert "env:NODEPOOL_OCB_SECRET_A" in site.exported()
        assert not site.plan(text).steps


def test_two_documents_are_one_site_and_a_thing_is_written_in_one_of_them() -> None:
    found = wanted("site: 1\nnodes: {n1.example.com: {}}\n---\nsite: 1\nnodes: {n2.example.com: {}}\n")
    assert list(found.nodes) == ["n1.example.com", "n2.example.com"]
    with pytest.raises(Invalid, match=r"site\.yaml:6: nodes.*is in site\.yaml:3 already; write it in one place"):
        wanted("site: 1\nnodes:\n  n1.example.com: {}\n---\nsite: 1\nnodes: {n1.example.com: {}}\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nodes: {n1.example.com: {tag: [a]}}", "unknown key `tag`; did you mean `tags`"),
        ("nodes: {N1.example.com: {}}", "'N1.example.com' is no name here"),
        ("nodes: {n1.example.com: {labels: {a: 1}}}", "must be text, and is 1"),
        ("roles: {r: {barclamp: b, jig: noop, flag: [a]}}", "a role has no flag; did you mean `flags`"),
        ("roles: {r: {barclamp: b, jig: noop, retries: -1}}", "retries"),
        ("nodes: {n1.example.com: {noderoles: {top: {state: ACTIVE}}}}", "must be one of PROPOSED, COMMITTED"),
        ("nodes: {n1.example.com: {host_keys: [x]}}", "TYPE KEY, as ssh-keyscan prints it"),
    ],
)
def test_a_slip_in_a_site_file_is_told_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(Invalid, match=sentence) as refused:
        wanted(f"site: 1\n{text}\n")
    assert "site.yaml:2: " in str(refused.value)


def test_each_transaction_carries_the_structure_and_writes_a_znode_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for most in (250, 6):
        monkeypatch.setattr("nodepool_ocb.model.limits.MOST_CHANGES", most)
        for transaction in Scene(with_roles()).plan(SITE).transactions:
            written = [change.path for change in transaction if not isinstance(change, Check)]
            assert len(written) == len(set(written))
            assert "/ocb/structure" in {change.path for change in transaction}


# -- there and back --


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_any_world_that_is_written_down_and_made_anew_is_the_same(seed: int) -> None:
    first = Scene(_any_world(Random(seed)).world)
    second = Scene(empty())
    second.apply(first.exported())
    assert second.export() == first.export()
    assert not second.plan(first.exported()).steps


def _any_world(chance: Random) -> Scene:
    """Made by binds in any order, as far as these are not refused, and with some of it committed."""
    site = Scene(with_roles())
    site.apply("site: 1\nwhole: true\ndeployments: {lab: {}, desk: {parent: lab}}\nnodes: {n1.x.y: {deployment: lab},"
               " n2.x.y: {deployment: desk}, n3.x.y: {deployment: desk}}\n")  # fmt: skip
    for _ in range(chance.randrange(1, 12)):
        role, fqdn = chance.choice([*ROLES]), f"n{chance.randrange(1, 4)}.x.y"
        try:
            found = binding.plan(
                site.world,
                role,
                fqdn,
                now=1.0,
                deployment=chance.choice([None, "lab", "desk"]),
                parents=_some(site, chance),
            )
        except Conflict:
            continue
        advance(site.world, found.changes)
    proposed = [vertex for vertex in site.world.vertices() if chance.random() < 0.5]
    for changes in commands.apply_to(site.world, proposed, Event.COMMIT, 2.0):
        advance(site.world, changes)
    return site


def _some(site: Scene, chance: Random) -> list[str]:
    names = sorted(vertex.name for vertex in site.world.vertices())
    return chance.sample(names, min(len(names), chance.randrange(3)))


def test_nothing_is_taken_from_who_asks_only_what_would_be() -> None:
    site = Scene(with_roles())
    before = site.export()
    site.plan(SITE, NOW)
    assert site.export() == before


FILE = """\
site: 1
{0}deployments:
  lab: {{roles: {{base: {{user: {1}}}}}}}
nodes: {{n1.x.y: {{deployment: lab, noderoles: {{top: {{user: {2}}}}}}}}}
"""


@pytest.mark.parametrize(
    ("base", "top", "sentence"),
    [
        ("{sise: 1}", "{}", r"deployments\.lab: role base declares nothing at sise; did you mean `size`"),
        ("{}", "{b: 1}", r"role top declares nothing at b; it has: a"),
        ("{size: 1, other: 2}", "{}", "role base declares nothing at other"),
    ],
)
def test_a_name_that_set_refuses_is_refused_but_not_where_it_stood_already(base: str, top: str, sentence: str) -> None:
    site = Scene(with_roles())
    with pytest.raises(Invalid, match=sentence):
        site.plan(FILE.format("", base, top))
    site.apply(FILE.format("as_stored: true\n", base, top))
    site.apply(FILE.format("", "{size: 9}", "{a: 1}"))
    assert site.world.deployment_roles["lab", "base"].record.user == {"size": 9}


def test_what_roles_do_not_declare_any_more_is_in_the_export_and_can_be_applied() -> None:
    site = Scene(with_roles())
    site.apply(FILE.format("", "{size: 1}", "{a: 1}"))
    assert "as_stored" not in site.exported()
    for role, attrib in (
        ("base", Attrib(name="bulk", map="bulk")),
        ("top", Attrib(name="a", map="a", schema={"type": "string"})),
    ):
        stored = site.world.roles[role]
        site.world.put(replace(stored, record=replace(stored.record, attribs=(attrib,))), role)
    exported = site.exported()
    assert "as_stored: true" in exported
    made = Scene(empty())
    found = made.apply(exported)
    assert [note for note in found.notes if "as it was stored" in note]
    assert made.exported() == exported


def test_plain_text_of_a_secret_is_in_no_export() -> None:
    site = Scene(with_roles())
    site.apply(FILE.format("", "{size: hunter22}", "{}"))
    stored = site.world.roles["base"]
    secret = Attrib(name="size", map="size", secret=True)
    site.world.put(replace(stored, record=replace(stored.record, attribs=(secret,))), "base")
    with pytest.raises(Conflict, match=r"base in lab: size; first: nodepool-ocb secret rotate") as refused:
        site.exported()
    assert "hunter22" not in str(refused.value)
