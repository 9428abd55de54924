"""Barclamp documents to roles, and what is said about their slips."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nodepool_ocb.catalogue import barclamp
from nodepool_ocb.catalogue.barclamp import Imported
from nodepool_ocb.catalogue.code import Hooked
from nodepool_ocb.catalogue.code import Role as PythonRole
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model.records import Attrib, Role

HEAD = "barclamp: {name: b}\nroles:\n"


def imported(tmp_path: Path, roles: str, known: dict[str, Role] | None = None, head: str = HEAD) -> Imported:
    (tmp_path / "b.yml").write_text(head + roles)
    return barclamp.load([tmp_path / "b.yml"], known)


def beside_a_good_one(roles: str) -> str:
    """A role ``r`` with these keys (or these roles, where whole lines are given), and a role ``good``."""
    written = roles if roles.startswith("  - ") else f"  - {{name: r, jig: noop, {roles}}}"
    return f"{written}\n  - {{name: good, jig: noop}}\n"


def test_a_whole_role(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        """
  - name: ntp-server
    jig: script
    description: Serves time
    flags: [implicit, milestone]
    requires: [base]
    conflicts: [chrony]
    provides: [ntp]
    wants-attribs: [zone]
    attribs:
      - name: servers
        map: ntp/servers
        default: [a]
        schema: {type: seq, sequence: [{type: str, required: true}]}
      - {name: zone, map: ntp/zone, default: {x: 1}}
      - {name: y, map: ntp/zone/y, default: 2}
      - {name: silent, map: ntp/silent}
    script: |
      echo hi
    timeout_seconds: 5
    retries: 2
    backoff_seconds: 0.5
    parameters: {delay: 1}
  - {name: base, jig: noop}
""",
    )
    assert found.problems == found.warnings == ()
    assert found.roles["ntp-server"] == Role(
        barclamp="b",
        jig="script",
        description="Serves time",
        flags=("implicit", "milestone"),
        requires=("base",),
        conflicts=("chrony",),
        provides=("ntp",),
        wants_attribs=("zone",),
        attribs=(
            Attrib(
                name="servers",
                map="ntp/servers",
                default=["a"],
                schema={"type": ["array", "null"], "items": {"type": "string"}},
            ),
            Attrib(name="zone", map="ntp/zone", default={"x": 1}),
            Attrib(name="y", map="ntp/zone/y", default=2),
            Attrib(name="silent", map="ntp/silent"),
        ),
        template={"ntp": {"servers": ["a"], "zone": {"x": 1, "y": 2}}},
        script="echo hi\n",
        parameters={"delay": 1},
        timeout_seconds=5,
        retries=2,
        backoff_seconds=0.5,
    )


def test_defaults_of_attributes_that_share_a_place_are_merged(tmp_path: Path) -> None:
    attribs = (
        "[{name: a, map: x, default: {b: 1, c: 1}}, {name: d, map: x, default: {c: 2}}, {name: e, map: y, default: 3}]"
    )
    found = imported(tmp_path, f"  - {{name: r, jig: noop, attribs: {attribs}}}")
    assert found.roles["r"].template == {"x": {"b": 1, "c": 2}, "y": 3}


@pytest.mark.parametrize(
    ("roles", "problem"),
    [
        ("wants-atribs: [x]", "3: @.wants-atribs: unknown key `wants-atribs`; did you mean `wants-attribs`?"),
        ("  - {name: r}", "3: @: key `jig` is missing"),
        ("  - {name: R!, jig: noop}", "3: roles[R!].name: must be a name of at most 63 lower-case letters"),
        ("flags: [implcit]", "3: @.flags[0]: unknown flag `implcit`; did you mean `implicit`?"),
        ("proceeds: [x]", "3: @.proceeds: `proceeds` is not supported; list this role under `requires`"),
        ("attribs: [{name: a, map: /a}]", "3: @.attribs[a].map: must be a place such as"),
        (
            "attribs: [{name: a, map: a, schema: {type: sec}}]",
            "3: @.attribs[a].schema: unknown type `sec`; did you mean `seq`?",
        ),
        (
            "attribs: [{name: a, map: a, default: 1}, {name: b, map: a/b, default: 2}]",
            "3: @.attribs[b].map: a/b lies inside a",
        ),
        ("provides: [r]", "3: @.provides[0]: a role that provides itself says nothing"),
        ("  - {name: r, jig: script, script: gone.sh}", "3: @.script: file"),
        ("  - {name: r, jig: script, script: ../x.sh}", "3: @.script: file ../x.sh is not beside the barclamp"),
        ("timeout_seconds: 0", "3: @.timeout_seconds: must be above 0, and is 0"),
        (
            "  - {name: ok, jig: noop}\n  - {name: ok, jig: noop}\n  - {name: r, jig: 7}",
            "4: roles[ok]: role ok is defined in",
        ),
    ],
)
def test_a_wrong_role_is_refused_with_a_sentence_and_the_others_are_taken(
    tmp_path: Path, roles: str, problem: str
) -> None:
    found = imported(tmp_path, beside_a_good_one(roles))
    assert any(problem.replace("@", "roles[r]") in sentence for sentence in found.problems), found.problems
    assert "good" in found.roles
    assert "r" not in found.roles


@pytest.mark.parametrize(
    ("roles", "warning"),
    [
        ("shade: red", "3: @.shade: unknown key `shade`; known here: attaches, attribs"),
        ("flags: [implicit, implcit]", "3: @.flags[1]: unknown flag `implcit`; it is kept and changes nothing"),
        ("flags: [zzz]", "3: @.flags[0]: unknown flag `zzz`; it is kept and changes nothing"),
        ("requires: [milestone]", "3: @.requires[0]: `milestone` is a flag, not a role"),
        ("requires: [r]", "3: @.requires[0]: a role cannot require itself; the line is ignored"),
        ("requires: [later]", "3: @.requires[0]: requires later, which is not known; until"),
        ("requires: [good, god]", "3: @.requires[1]: requires god, which is not known; until"),
        ("requires: [god]", "3: @.requires[0]: requires god, which is not known; did you mean `good`?"),
        (
            "attaches: [later]",
            "3: @.attaches[0]: attaches to later, which is not known; it depends on this role as soon",
        ),
        ("attaches: [god]", "3: @.attaches[0]: attaches to god, which is not known; did you mean `good`?"),
        ("wants-attribs: [x]", "3: @.wants-attribs[0]: wants attribute x, which no known role declares"),
        ("requires: [good], conflicts: [good]", "3: @.requires[0]: depends on good and conflicts with it"),
        ("requires: [good], provides: [good]", "3: @.provides[0]: depends on good, and one of them stands in"),
        (
            "  - name: r\n    jig: noop\n    attribs:\n    - {name: a, map: x}\n    - {name: a, map: y, default: 1}",
            "7: @.attribs[a].name: attribute a is declared twice",
        ),
        (
            "attribs: [{name: a, map: x, default: 1, schema: {type: str}}]",
            "the default does not fit its own schema: must be text or nothing, and is 1",
        ),
        ("  - {name: r, jig: script}", "3: @.jig: jig script has no script to run"),
        ("type: 'BarclampX::R'", "3: @.type: no installed package offers its Python class"),
    ],
)
def test_harmless_oddities_are_warnings(tmp_path: Path, roles: str, warning: str) -> None:
    found = imported(tmp_path, beside_a_good_one(roles))
    assert found.problems == ()
    assert any(warning.replace("@", "roles[r]") in sentence for sentence in found.warnings), found.warnings
    assert found.roles.keys() == {"good", "r"}


@pytest.mark.parametrize(
    "head",
    [
        "barclamp: {name: b, api_version: v2, api_version_accepts: v2}\n",
        "barclamp: {name: b, api_version: [], versoin: 1, nam: x}\n",
        "barclamp: {name: b}\nrebar: {layout: 2.0}\n",
        "barclamp: {name: b}\nattribs:\nattribs_of_old: []\nrolse: 7\n",
        "barclamp: {name: b}\nnavs: 1\nnav: [a, {b: 2}]\nwizard: 3\n",
    ],
)
def test_a_section_or_a_key_without_meaning_costs_nothing(tmp_path: Path, head: str) -> None:
    found = imported(tmp_path, "  - {name: good, jig: noop}\n", head=f"{head}roles:\n")
    assert found.problems == ()
    assert found.roles.keys() == {"good"}


def test_keys_of_a_role_without_meaning_may_hold_anything(tmp_path: Path) -> None:
    keys = "display: [1], icon: 7, order: last, cohort: {}, events: 0, metadata: x, documentation: {a: 1}, disply: 2"
    attrib = "{name: a, map: x, type: 7, order: first, poly: 1, writable: never, documentation: [d]}"
    found = imported(tmp_path, beside_a_good_one(f"{keys}, attribs: [{attrib}]"))
    assert found.problems == ()
    assert [warning for warning in found.warnings if "unknown key `disply`" not in warning] == []
    assert found.roles.keys() == {"good", "r"}


@pytest.mark.parametrize(
    ("text", "lost", "left"),
    [
        ("attribs: [{name: 7}]\nroles:\n  - {name: r, jig: noop}\n", "attribs[0].name", {"r"}),
        ("roles: {r: 1}\nattribs: [{name: a, map: a}]\n", "roles: must be a list", {"barclamp-b"}),
        ("rols: []\nattribs: [{name: a, map: a}]\n", "unknown key `rols`; did you mean `roles`", {"barclamp-b"}),
    ],
)
def test_a_section_that_is_wrong_costs_itself(tmp_path: Path, text: str, lost: str, left: set[str]) -> None:
    found = imported(tmp_path, text, head="barclamp: {name: b}\n")
    assert any(lost in problem for problem in found.problems), found.problems
    assert found.roles.keys() == left


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ("attribs: [{name: a, map: a, default: .inf}]", ".inf is not a number in JSON"),
        ("attribs: [{name: a, map: a, default: {7: 1}}]", "key 7 must be text"),
        ("attribs: [{name: a, map: a, default: !ruby/object {}}]", "tag !ruby/object is not allowed"),
        ("requires: [x], requires: [y]", "key is there twice"),
        ("retries: 1e999", "is too large for a number"),
    ],
)
def test_what_is_no_plain_value_costs_the_role_that_it_is_in(tmp_path: Path, wrong: str, line: str) -> None:
    found = imported(tmp_path, beside_a_good_one(wrong))
    assert found.roles.keys() == {"good"}
    (problem,) = found.problems
    assert problem.startswith(f"{tmp_path}/b.yml:3: roles[0].")
    assert line in problem


@pytest.mark.parametrize(
    "head",
    [
        "barclamp: {name: b, version: .inf, version: 2}\n",
        "barclamp: {name: b}\nnav: {a: 1, a: 2}\n",
        "barclamp: {name: b}\nhammers: [{7: 1}, !x y]\n",
        "barclamp: {name: b}\nunheard_of: {a: .inf}\n",
    ],
)
def test_what_is_no_plain_value_costs_nothing_where_nobody_reads_it(tmp_path: Path, head: str) -> None:
    found = imported(tmp_path, "  - {name: r, jig: noop, documentation: {7: .nan}}\n", head=f"{head}roles:\n")
    assert found.problems == ()
    assert all(warning.endswith("; ignored") for warning in found.warnings)
    assert len(found.warnings) >= 3
    assert found.roles.keys() == {"r"}


def test_invalid_yaml_costs_the_document(tmp_path: Path) -> None:
    for text in ("  - {name: r, jig: noop}\n  - [\n", "  - {name: r, jig: noop}\n---\na: 1\n"):
        found = imported(tmp_path, text)
        assert (found.roles, len(found.problems)) == ({}, 1)
    assert imported(tmp_path, "  - {name: r, jig: noop}\n", head="barclamp: {name: b, name: c}\nroles:\n").roles == {}


@pytest.mark.parametrize(
    ("known", "until"), [({}, "this role cannot be bound"), ({"bad": 1}, "bad as it was imported before counts")]
)
def test_what_requires_a_role_that_is_left_out_is_told_where_that_stands(
    tmp_path: Path, known: dict[str, int], until: str
) -> None:
    before = {name: Role(barclamp="b", jig="noop") for name in known}
    for wrong in ("retries: -1", "provides: [bad]", "flags: [implcit]"):
        roles = f"  - {{name: bad, jig: noop, {wrong}}}\n  - {{name: r, jig: noop, requires: [bad]}}\n"
        found = imported(tmp_path, roles, before)
        said = f"b.yml:4: roles[r].requires[0]: requires bad, which is left out ({tmp_path}/b.yml:3); until it is mended, {until}"
        assert found.roles.keys() == {"r"}, wrong
        assert [warning.rpartition("/b.yml:4")[2] for warning in found.warnings] == [said.rpartition("b.yml:4")[2]], (
            wrong
        )


def test_flags_of_opencrowbar_that_change_nothing_here_are_taken_in_silence(tmp_path: Path) -> None:
    legacy = "[service, powersave, server, leader, cohort]"
    found = imported(tmp_path, f"  - {{name: r, jig: noop, flags: {legacy}}}")
    assert (*found.warnings, *found.problems) == ()


def test_misplaced_flags_and_self_requirements_are_mended(tmp_path: Path) -> None:
    found = imported(
        tmp_path, "  - {name: r, jig: noop, flags: [implicit], requires: [r, milestone, s]}\n  - {name: s, jig: noop}\n"
    )
    assert found.roles["r"].requires == ("s",)
    assert found.roles["r"].flags == ("implicit", "milestone")


def test_a_role_that_is_called_like_a_flag_is_a_role(tmp_path: Path) -> None:
    found = imported(tmp_path, "  - {name: r, jig: noop, requires: [library]}\n  - {name: library, jig: noop}\n")
    assert found.roles["r"].requires == ("library",)
    assert found.warnings == ()


def test_a_circle_is_named_once_by_its_shortest_way_and_its_roles_are_refused(tmp_path: Path) -> None:
    circle = "".join(
        f"  - {{name: {name}, jig: noop, requires: [{needs}]}}\n"
        for name, needs in {"a": "b", "b": "c", "c": "d, b", "d": "a", "e": "a", "f": ""}.items()
    )
    found = imported(tmp_path, circle)
    (problem,) = found.problems
    assert "4: roles[b].requires[0]: roles require each other in a circle: b -> c -> b; take one" in problem
    assert found.roles.keys() == {"e", "f"}


def test_many_roles_that_all_require_each_other_are_told_in_no_time(tmp_path: Path) -> None:
    names = [f"r{number}" for number in range(40)]
    lines = (
        f"  - {{name: {one}, jig: noop, requires: [{', '.join(n for n in names if n != one)}]}}\n" for one in names
    )
    found = imported(tmp_path, "".join(lines))
    assert len(found.problems) == 1
    assert "r0 -> r1 -> r0" in found.problems[0]


def test_what_is_wrong_with_the_whole_document_refuses_it_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("barclamp: {}\nroles: [{name: a, jig: noop}]\n")
    (tmp_path / "c.yaml").write_text("barclamp: {name: c}\nroles: [{name: c, jig: noop}]\n")
    (tmp_path / "d.yml").write_text("roles: [\n")
    (tmp_path / "notes.txt").write_text("no barclamp")
    found = barclamp.load([tmp_path])
    assert found.roles.keys() == {"c"}
    assert [sentence.partition(":")[0].rpartition("/")[2] for sentence in found.problems] == ["a.yml", "d.yml"]


def test_a_role_of_another_barclamp_is_not_replaced_but_its_own_is(tmp_path: Path) -> None:
    text = "  - {name: r, jig: noop}\n"
    assert imported(tmp_path, text, {"r": Role(barclamp="b", jig="test")}).roles["r"].jig == "noop"
    refused = imported(tmp_path, text, {"r": Role(barclamp="other", jig="test")})
    assert "role r belongs to barclamp other, which was imported before" in refused.problems[0]
    assert not refused.roles


@pytest.mark.parametrize(
    ("before", "now", "kept"),
    [("BarclampB::R", "BarclampB::R", True), (None, None, True), ("BarclampB::R", None, False), ("Old", "New", False)],
)
def test_hooks_stay_where_their_package_is_not_installed_unless_the_document_names_their_class_no_more(
    tmp_path: Path, before: str | None, now: str | None, kept: bool
) -> None:
    known = {"r": Role(barclamp="b", jig="noop", type=before, hooks=("on_active",))}
    found = imported(tmp_path, f"  - {{name: r, jig: noop{f', type: {now!r}' if now else ''}}}\n", known)
    assert found.roles["r"].hooks == (("on_active",) if kept else ())
    assert any("its hooks stay as imported before: on_active" in text for text in found.warnings) is kept


def test_a_circle_with_a_known_role_refuses_only_the_new_one(tmp_path: Path) -> None:
    known = {"old": Role(barclamp="o", jig="noop", requires=("r",))}
    found = imported(tmp_path, "  - {name: r, jig: noop, requires: [old]}\n", known)
    assert "old -> r -> old" in found.problems[0]
    assert not found.roles


def test_attributes_of_the_barclamp_itself_become_those_of_an_abstract_role(tmp_path: Path) -> None:
    text = "  - {name: r, jig: noop, wants-attribs: [os]}\nattribs:\n  - {name: os, map: ohai/os, default: 0000}\n"
    found = imported(tmp_path, text)
    assert found.warnings == ()
    own = found.roles["barclamp-b"]
    assert own.flags == ("abstract", "library")
    assert own.attribs == (Attrib(name="os", map="ohai/os", default="0000"),)


def test_no_script_is_read_through_a_folder_that_is_a_link(tmp_path: Path) -> None:
    for secret in (tmp_path / "away" / "secret.sh", tmp_path / "away" / "two" / "01.sh"):
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.write_text("echo secret\n")
    home = tmp_path / "home"
    (home / "script" / "roles").mkdir(parents=True)
    (home / "linked").symlink_to(tmp_path / "away")
    (home / "script" / "roles" / "two").symlink_to(tmp_path / "away" / "two")
    (home / "b.yml").write_text(
        HEAD + "  - {name: two, jig: script}\n  - {name: one, jig: script, script: linked/secret.sh}\n"
    )
    found = barclamp.load([home])
    assert [("cannot be read" in each) for each in found.problems] == [True, True]
    assert all(role.script is None for role in found.roles.values())


def test_scripts_lie_beside_the_barclamp_or_in_opencrowbars_layout(tmp_path: Path) -> None:
    folder = tmp_path / "script" / "roles" / "two"
    folder.mkdir(parents=True)
    (folder / "01-a.sh").write_text('#!/bin/bash\nset -e\necho one\n[ -z "$FAIL" ] || false\necho one-b\n')
    (folder / "02-b.sh").write_text("cat <<END\ntwo\nEND\n")
    (tmp_path / "one.sh").write_text("echo file\n")
    (tmp_path / "barclamps").mkdir()
    (tmp_path / "barclamps" / "b.yml").write_text(HEAD + "  - {name: two, jig: script}\n")
    (tmp_path / "c.yml").write_text("barclamp: {name: c}\nroles:\n  - {name: one, jig: script, script: one.sh}\n")
    (tmp_path / "link.sh").symlink_to("/etc/passwd")
    (tmp_path / "d.yml").write_text("barclamp: {name: d}\nroles:\n  - {name: three, jig: script, script: link.sh}\n")
    found = barclamp.load([tmp_path / "barclamps", tmp_path])
    assert found.roles["one"].script == "echo file\n"
    assert "link.sh cannot be read" in found.problems[0]
    script = found.roles["two"].script
    assert script is not None
    assert script.startswith("#!/bin/bash\n")
    good = subprocess.run(["bash", "-c", script], env={"FAIL": ""}, capture_output=True, text=True, check=False)
    assert (good.returncode, good.stdout) == (0, "one\none-b\ntwo\n")
    bad = subprocess.run(["bash", "-c", script], env={"FAIL": "1"}, capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout) == (1, "one\n")


def test_absent_barclamps_are_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"gone\.yml does not exist"):
        barclamp.load([tmp_path / "gone.yml"])
    with pytest.raises(NotFound, match="holds no barclamp"):
        barclamp.load([tmp_path])


class Code(PythonRole):
    def on_todo(self, hooked: Hooked) -> None: ...
    def on_node_update(self, hooked: Hooked) -> None: ...


def test_a_role_with_python_code_gets_its_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barclamp, "find", lambda name, _: Code(name))
    found = imported(tmp_path, "  - {name: r, jig: role-provided, type: 'BarclampB::R'}\n")
    assert found.warnings == ()
    assert found.roles["r"].hooks == ("on_todo", "on_node_change")
    assert found.roles["r"].type == "BarclampB::R"


def test_code_that_cannot_be_loaded_refuses_its_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, barclamp: str) -> None:
        raise Invalid(f"role {name} is left out: no module for it in {barclamp}")

    monkeypatch.setattr(barclamp, "find", broken)
    found = imported(tmp_path, "  - {name: r, jig: noop}\n")
    assert "its Python class cannot be used: role r is left out: no module for it in b" in found.problems[0]
