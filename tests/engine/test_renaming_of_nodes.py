"""Renaming a node: one transaction over its records, or a refusal."""

from __future__ import annotations

import pytest

from nodepool_ocb.engine import renaming
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Claim, Create, Delete, State, Structure
from tests.engine.worlds import put, world

OLD, NEW = "n1.example.com", "n2.example.com"


@pytest.fixture
def there() -> World:
    made = world()
    made.put(Stored(Structure(), 1))
    put(made, f"app@{OLD}", State.ACTIVE)
    return made


def going(*below: str) -> list[Delete]:
    return [Delete(f"{paths.node(OLD)}/{each}", 0) for each in below] + [Delete(paths.node(OLD), 5)]


def test_a_node_on_which_an_annealer_works_keeps_its_name(there: World) -> None:
    there.put_claim(OLD, Claim(annealer="a", noderole=f"app@{OLD}", run="r1", epoch=7, since=1.0), 0)
    with pytest.raises(Conflict, match=f"^app@{OLD} is at work on {OLD}; wait until it ends: .* wait app@{OLD}$"):
        renaming.rename(there, OLD, NEW, going(), {}, admin_domain=None)


@pytest.mark.parametrize(("letters", "fits"), [(1000, True), (limits.TRANSACTION_BYTES, False)])
def test_a_node_with_more_than_one_transaction_bears_keeps_its_name(there: World, letters: int, fits: bool) -> None:
    below, contents = going("noderoles"), {f"{paths.node(OLD)}/noderoles": "x" * letters}
    if not fits:
        with pytest.raises(
            Conflict, match="has more noderoles, attributes and runs than the one transaction of a rename"
        ):
            renaming.rename(there, OLD, NEW, below, contents, admin_domain=None)
        return
    made = renaming.rename(there, OLD, NEW, below, contents, admin_domain=None)
    assert [each.path for each in made if isinstance(each, Create)] == [paths.node(NEW), f"{paths.node(NEW)}/noderoles"]
