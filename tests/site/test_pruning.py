"""What goes where the files do not have it, and what never does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.deployments import OF_TASKS
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Delete, Node, NodeRole, State
from nodepool_ocb.site.plan import SitePlan, plan
from tests.site.scenes import NOW, Scene, wanted, with_roles

SITE = """\
site: 1
deployments: {lab: {}, desk: {}}
nodes:
  n1.example.com: {deployment: lab, noderoles: {top: {state: COMMITTED}}}
  n2.example.com: {deployment: lab, noderoles: [base]}
  n3.example.com: {deployment: desk, noderoles: [base]}
  n4.example.com: {noderoles: [base]}
"""


def _site() -> Scene:
    site = Scene(with_roles())
    site.apply(SITE)
    return site


def _prune(site: Scene, text: str) -> SitePlan:
    def removal(path: str) -> Sequence[Delete]:
        """What stands there in ZooKeeper after such an apply."""
        match path.split("/")[2:]:
            case ["nodes", fqdn]:
                view = site.world.nodes[fqdn]
                below = [each for role in sorted(view.noderoles) for each in removal(paths.noderole(role, fqdn))]
                fence = Delete(paths.fence(fqdn), view.fence)
                return [*below, Delete(paths.noderoles(fqdn), 0), fence, Delete(path, view.version)]
            case ["nodes", fqdn, _, role]:
                vertex = site.world.nodes[fqdn].noderoles[role]
                return [Delete(paths.runs(role, fqdn), 0), Delete(path, vertex.version)]
        raise AssertionError(path)

    return plan(site.world, wanted(text), NOW, site.kept, removal)


def _gone(found: SitePlan) -> list[str]:
    return [change.path for each in found.transactions for change in each if isinstance(change, Delete)]


def _left(site: Scene, text: str) -> list[str]:
    found = _prune(site, text)
    gone = _gone(found)
    assert len(gone) == len(set(gone))
    for transaction in found.transactions:
        advance(site.world, transaction)
    assert not _prune(site, text).steps
    return sorted(vertex.name.removesuffix(".example.com") for vertex in site.world.vertices())


def test_what_the_files_have_goes_nowhere() -> None:
    assert not _prune(_site(), SITE).steps


def test_a_noderole_that_is_not_in_the_files_goes_and_so_does_a_node() -> None:
    text = "site: 1\ndeployments: {lab: {}}\nnodes:\n  n1.example.com: {noderoles: {}}\n"
    site = _site()
    assert sorted(_prune(site, text).going) == [
        "node n2.example.com", "noderole base@n1.example.com", "noderole base@n2.example.com",
        "noderole middle@n1.example.com", "noderole top@n1.example.com",
    ]  # fmt: skip
    assert _left(site, text) == ["base@n3", "base@n4"]
    assert sorted(name.partition(".")[0] for name in site.world.nodes) == ["n1", "n3", "n4"]


def test_nothing_goes_in_a_deployment_that_the_files_do_not_have_nor_in_system() -> None:
    everything = ["base@n1", "base@n2", "base@n3", "base@n4", "middle@n1", "top@n1"]
    for text in (
        "site: 1\n",
        "site: 1\ndeployments: {system: {}}\n",
        "site: 1\nnodes: {n1.example.com: {noderoles: []}}\n",
    ):
        assert _left(_site(), text) == everything


def test_what_a_noderole_of_the_files_stands_on_stays_and_so_does_a_node_of_which_nothing_is_said() -> None:
    text = "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {noderoles: [middle]}, n2.example.com: {}}\n"
    assert _left(_site(), text) == ["base@n1", "base@n2", "base@n3", "base@n4", "middle@n1"]


def test_the_roles_that_every_new_node_gets_stay_unless_the_files_are_whole() -> None:
    site = _site()
    stored = site.world.roles["base"]
    site.world.put(replace(stored, record=replace(stored.record, flags=("discovery",))), "base")
    text = "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {}, n2.example.com: {noderoles: []}}\n"
    assert "base@n2" in _left(site, text)
    assert "base@n2" not in _left(site, f"whole: true\n{text}")


def test_what_the_roles_of_every_new_node_depend_on_stays_too() -> None:
    """As with the shipped barclamps: the discovery role depends on roles that no file names."""
    site = _site()
    stored = site.world.roles["top"]
    site.world.put(replace(stored, record=replace(stored.record, flags=("discovery",))), "top")
    text = "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {noderoles: []}, n2.example.com: {}}\n"
    assert not _prune(site, text).steps
    assert _left(site, f"whole: true\n{text}") == ["base@n2", "base@n3", "base@n4"]


def test_what_would_take_something_along_that_stays_is_refused() -> None:
    site = _site()
    site.apply("site: 1\nnodes: {n3.example.com: {noderoles: {middle: {parents: [base@n2.example.com]}}}}\n")
    with pytest.raises(
        Conflict, match=r"base@n2.example.com is in no file, and middle@n3.example.com depends on it and stays"
    ):
        _prune(site, "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {}, n2.example.com: {noderoles: []}}\n")


def test_what_goes_with_a_noderole_of_another_node_goes_once() -> None:
    site = _site()
    site.apply("site: 1\nnodes: {n2.example.com: {noderoles: {middle: {parents: [base@n1.example.com]}}}}\n")
    text = "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {noderoles: []}}\n"
    assert _left(site, text) == ["base@n3", "base@n4"]


def test_a_node_with_something_of_a_deployment_that_the_files_do_not_have_is_refused() -> None:
    site = _site()
    site.apply("site: 1\nnodes: {n2.example.com: {noderoles: {once: {deployment: desk}}}}\n")
    with pytest.raises(
        Conflict, match=r"node n2.example.com is in no file, and once@n2.example.com of deployment desk"
    ):
        _prune(site, "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {}}\n")


def test_a_prune_is_refused_while_a_noderole_runs() -> None:
    site = _site()
    vertex = site.world.vertex("top@n1.example.com")
    assert vertex is not None
    site.world.put_noderole("n1.example.com", "top", replace(vertex.record, state=State.TRANSITION), vertex.version + 1)
    with pytest.raises(Conflict, match=r"top@n1.example.com is in TRANSITION; wait until it ends"):
        _prune(site, "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {noderoles: []}, n2.example.com: {}}\n")


def test_a_role_gives_way_to_its_rival_in_one_apply() -> None:
    text = "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {noderoles: [rival]}, n2.example.com: {}}\n"
    assert _left(_site(), text) == ["base@n2", "base@n3", "base@n4", "rival@n1"]


def test_leaves_go_first() -> None:
    text = "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {noderoles: []}, n2.example.com: {}}\n"
    gone = [path for path in _gone(_prune(_site(), text)) if not path.endswith("/runs")]
    assert gone == [paths.noderole(role, "n1.example.com") for role in ("top", "middle", "base")]


def test_of_two_nodes_that_go_the_one_goes_first_that_depends_on_the_other() -> None:
    site = _site()
    site.apply(
        "site: 1\nnodes: {n2.example.com: {noderoles: {middle: {state: COMMITTED, parents: [base@n1.example.com]}}}}\n"
    )
    assert _left(site, "site: 1\ndeployments: {lab: {}}\n") == ["base@n3", "base@n4"]


def test_a_node_on_which_something_depends_that_stays_is_refused() -> None:
    site = _site()
    site.apply("site: 1\nnodes: {n3.example.com: {noderoles: {middle: {parents: [base@n2.example.com]}}}}\n")
    with pytest.raises(
        Conflict, match=r"node n2.example.com is in no file, and middle@n3.example.com depends on it and stays"
    ):
        _prune(site, "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {}}\n")


def test_a_node_that_goes_already_is_not_asked_again() -> None:
    site = _site()
    record = site.world.nodes["n2.example.com"].record
    assert record is not None
    site.world.put_node("n2.example.com", replace(record, deleting=True), 1)
    assert not _prune(site, "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {}}\n").steps


def _with_a_task(site: Scene, fqdn: str, **node: Any) -> None:
    """A run of the deployment's task list left a noderole there."""
    made = Node(**node) if node else site.world.nodes[fqdn].record
    assert made is not None
    site.world.put_node(fqdn, made, 0)
    site.world.put_noderole(
        fqdn, "once", NodeRole.of(state=State.ACTIVE, since=1.0, deployment="lab", task_run="0001"), 0
    )


def test_a_prune_keeps_noderoles_of_task_runs() -> None:
    """Its stages are on a node of their own, and its tasks beside what people bound."""
    site = _site()
    of_tasks = {"virtual": True, "deployment": "lab", "labels": {OF_TASKS: "lab"}}
    _with_a_task(site, "stages.example.com", **of_tasks)
    _with_a_task(site, "n1.example.com")
    text = "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {noderoles: [top]}, n2.example.com: {}}\n"
    assert not _prune(site, text).steps


def test_a_node_with_a_task_is_refused() -> None:
    site = _site()
    _with_a_task(site, "n2.example.com")
    with pytest.raises(Conflict, match=r"node n2.example.com is in no file, and once@n2.example.com of deployment lab"):
        _prune(site, "site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {}}\n")
