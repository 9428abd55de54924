"""The hooks of a node that comes and goes are called while it is there, with what is bound to it."""

from __future__ import annotations

from nodepool_ocb.engine import nodes
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Node, Role
from nodepool_ocb.store.world.load import load_world
from tests.fixtures.deletions import deletion_of_node
from tests.journeys.fleet import DEPLOYMENT, Fleet
from tests.stories.test_annealer import package

NOTES = """
import os, pathlib
from nodepool_ocb.catalogue.code import Role

class Watched(Role):
    def note(self, hook, hooked):
        with pathlib.Path(os.environ["NOTES"]).open("a") as file:
            print(hook, hooked.subject, hooked.node is not None, *sorted(hooked.noderoles), file=file)

    def on_node_create(self, hooked):
        self.note("create", hooked)

    def on_node_delete(self, hooked):
        self.note("delete", hooked)
"""


def test_a_node_that_comes_and_goes_calls_its_hooks_with_what_is_bound_and_before_it_is_gone(fleet: Fleet) -> None:
    fqdn, notes, session = "other.example.com", fleet.folder / "notes", fleet.session
    hooks = ("on_node_create", "on_node_delete")
    fleet.add_role("watched", Role(barclamp="b", jig="noop", flags=("discovery",), hooks=hooks))
    folder = package(fleet.folder / "site", NOTES)
    fleet.annealer().begin(PYTHONPATH=str(folder), NOTES=str(notes))
    made = nodes.create(load_world(session), fqdn, Node(deployment=DEPLOYMENT), admin_domain=None, now=1.0)
    session.commit(made.changes)
    fleet.until(lambda: not fleet.node(fqdn).hooks, "the hook of its creation has run")
    fleet.write(lambda world: next(iter(deletion_of_node(session, world, fqdn))))
    fleet.until(lambda: session.get(paths.node(fqdn)) is None, "it is gone")
    noderole = f"watched@{fqdn}"
    assert notes.read_text().splitlines() == [f"create {fqdn} True {noderole}", f"delete {fqdn} True {noderole}"]
