"""The Python code of roles is found among what is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.catalogue import code
from nodepool_ocb.errors import Invalid

SOURCE = """
from nodepool_ocb.catalogue.code import Role

class All(Role):
    def on_active(self, hooked): ...

class One(Role):
    def on_todo(self, hooked): ...
"""
POINTS = "[nodepool_ocb.roles]\nseeded-barclamp = seeded_roles:All\nseeded-role = seeded_roles:One\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with code for a barclamp, and for one role."""
    (tmp_path / "seeded_roles.py").write_text(SOURCE)
    info = tmp_path / "seeded_roles-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: seeded-roles\nVersion: 1\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    code.look_again()
    yield
    monkeypatch.undo()
    code.look_again()


@pytest.mark.usefixtures("installed")
def test_the_class_of_a_role_goes_before_that_of_its_barclamp() -> None:
    own, others = code.find("seeded-role", "seeded-barclamp"), code.find("any", "seeded-barclamp")
    assert own is not None
    assert others is not None
    assert code.overridden(type(own)) == ("on_todo",)
    assert (others.name, code.overridden(type(others))) == ("any", ("on_active",))
    assert code.find("any", "another-barclamp") is None


@pytest.mark.usefixtures("installed")
def test_a_role_whose_own_code_is_left_out_does_not_get_the_code_of_its_barclamp(tmp_path: Path) -> None:
    (tmp_path / "seeded_roles-1.dist-info" / "entry_points.txt").write_text(POINTS.replace(":One", ":Missing"))
    code.look_again()
    with pytest.raises(Invalid, match="role seeded-role is left out"):
        code.find("seeded-role", "seeded-barclamp")
    assert code.find("any", "seeded-barclamp") is not None
