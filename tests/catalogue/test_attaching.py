"""Requirements that documents state at the other end: ``attaches`` of a role, ``implementor`` of a jig (OpenCrowbar)."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb.catalogue import barclamp
from nodepool_ocb.catalogue.barclamp import Imported
from nodepool_ocb.engine import roles
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Role, Set

IPMI = "barclamp: {name: ipmi}\nroles:\n  - {name: ipmi-discover, jig: noop, attaches: [managed]}\n"
SYSTEM = (
    "barclamp: {name: system}\nroles:\n  - {name: base, jig: noop}\n  - {name: managed, jig: noop, requires: [base]}\n"
)
CHEF = """\
barclamp: {name: chef}
jigs:
  - {name: chef, class: BarclampChef::Jig, implementor: chef-client}
  - {name: noop, implementor: ~}
roles:
  - {name: chef-client, jig: script, script: "true"}
"""
APP = "barclamp: {name: app}\nroles:\n  - {name: app, jig: chef}\n  - {name: other, jig: noop}\n"


def load(folder: Path, *texts: str, known: dict[str, Role] | None = None) -> Imported:
    files = []
    for number, text in enumerate(texts):
        files.append(folder / f"{number}.yml")
        files[-1].write_text(text)
    found = barclamp.load(files, known)
    assert found.problems == ()
    return found


def after(folder: Path, *imports: tuple[str, ...]) -> dict[str, Role]:
    """The catalogue after these imports, one after the other."""
    catalogue: dict[str, Role] = {}
    for texts in imports:
        catalogue |= load(folder, *texts, known=catalogue).roles
    return catalogue


@pytest.mark.parametrize(
    "imports",
    [
        ((IPMI, SYSTEM),),
        ((IPMI,), (SYSTEM,)),
        ((SYSTEM,), (IPMI,)),
        ((SYSTEM, IPMI), (SYSTEM,)),
        ((SYSTEM, IPMI), (IPMI,)),
    ],
    ids=["together", "before", "after", "the attached role again", "the attaching role again"],
)
def test_a_role_that_another_attaches_itself_to_requires_that_one(
    tmp_path: Path, imports: tuple[tuple[str, ...], ...]
) -> None:
    managed = after(tmp_path, *imports)["managed"]
    assert managed.requires == ("base", "ipmi-discover")
    assert managed.attached == ("ipmi-discover",)


def test_a_requirement_goes_with_the_statement_at_the_other_end(tmp_path: Path) -> None:
    plain = IPMI.replace(", attaches: [managed]", "")
    assert after(tmp_path, (SYSTEM, IPMI), (plain,))["managed"].requires == ("base",)


def test_a_requirement_that_both_ends_state_stays_with_one_of_them(tmp_path: Path) -> None:
    both = SYSTEM.replace("requires: [base]", "requires: [base, ipmi-discover]")
    assert after(tmp_path, (both, IPMI), (IPMI.replace(", attaches: [managed]", ""),))["managed"].requires == (
        "base",
        "ipmi-discover",
    )


def test_roles_of_a_jig_require_its_implementor(tmp_path: Path) -> None:
    for imports in ((CHEF, APP),), ((APP,), (CHEF,)), ((CHEF,), (APP,)):
        catalogue = after(tmp_path, *imports)
        assert catalogue["app"].requires == ("chef-client",)
        assert catalogue["other"].requires == catalogue["chef-client"].requires == ()
        assert catalogue["barclamp-chef"].implementors == {"chef": "chef-client"}


def test_a_jig_without_a_name_is_a_problem_of_its_section(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(CHEF.replace("name: chef, class", "name: 5, class"))
    found = barclamp.load([tmp_path / "b.yml"])
    assert "3: jigs[0].name: must be text, and is 5" in found.problems[0]


def test_a_circle_through_a_statement_at_the_other_end_is_refused(tmp_path: Path) -> None:
    known = after(tmp_path, (SYSTEM,))
    (tmp_path / "b.yml").write_text(IPMI.replace("attaches: [managed]", "attaches: [base], requires: [managed]"))
    found = barclamp.load([tmp_path / "b.yml"], known)
    assert "circle" in found.problems[0]
    assert found.roles == {}


def test_an_implementor_that_is_not_known_is_a_warning(tmp_path: Path) -> None:
    found = load(tmp_path, CHEF.replace("name: chef-client, jig", "name: chef-clients, jig"), APP)
    assert any("roles[app]: requires chef-client, which is not known" in each for each in found.warnings), (
        found.warnings
    )


def stored(catalogue: dict[str, Role]) -> World:
    world = World()
    for name, role in catalogue.items():
        world.put(Stored(role, 3), name)
    return world


def test_a_role_that_is_deleted_takes_its_statements_along(tmp_path: Path) -> None:
    world = stored(after(tmp_path, (SYSTEM, IPMI)))
    changes = {change.path: change for change in roles.deletion(world, ["ipmi-discover"])}
    managed = changes[paths.role("managed")]
    assert isinstance(managed, Set)
    assert isinstance(managed.data, Role)
    assert (managed.data.requires, managed.data.attached, managed.version) == (("base",), (), 3)


def test_a_role_that_another_requires_by_itself_is_not_deleted(tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="base by managed"):
        roles.deletion(stored(after(tmp_path, (SYSTEM, IPMI))), ["base"])


def test_a_wanted_attribute_with_another_place_is_read_with_a_warning(tmp_path: Path) -> None:
    text = (
        "barclamp: {name: b}\nroles:\n  - name: r\n    jig: noop\n    wants-attribs: [zone, {name: bin_dir, at: bin}]\n"
    )
    found = load(tmp_path, text)
    assert found.roles["r"].wants_attribs == ("zone", "bin_dir")
    assert any("roles[r].wants-attribs[bin_dir].at: is not supported" in each for each in found.warnings), (
        found.warnings
    )
