"""What a hook wants and cannot have is that hook's failure; what others want is written, and nobody is called again and again."""

from __future__ import annotations

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Role, State
from tests.journeys.fleet import Fleet
from tests.stories.test_annealer import package

NO_JSON = """
from nodepool_ocb.catalogue.code import Role

class Watched(Role):
    def on_active(self, hooked):
        hooked.set_system[hooked.subject] = {"what": %s}
"""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "object()",
            "on_active: this cannot be written as JSON: Encoding objects of type object is unsupported; correct that value",
        ),
        (
            "'x' * 600_000",
            "on_active: {system}: 600011 bytes are more than it may hold (524288); make it smaller",
        ),
    ],
)
def test_a_noderole_whose_hook_wants_what_cannot_be_written_is_in_error(fleet: Fleet, value: str, said: str) -> None:
    fleet.add_role("watched", Role(barclamp="fleet", jig="noop", hooks=("on_active",)))
    noderole = fleet.bind("watched", fleet.nodes[0])
    fleet.annealer().begin(PYTHONPATH=str(package(fleet.folder / "site", NO_JSON % value)))
    fleet.until_state(noderole, State.ERROR)
    assert fleet.record(noderole).reason == said.format(system=paths.system("watched", fleet.nodes[0]))


NOWHERE = """
from nodepool_ocb.catalogue.code import Role

class Dns(Role):
    def on_node_change(self, hooked):
        hooked.set_node["rack"] = "r1"

class Watched(Role):
    def on_node_change(self, hooked):
        hooked.set_node["deployment"] = "nowhere"
"""


def test_what_one_role_cannot_have_of_a_node_takes_nothing_from_another(fleet: Fleet) -> None:
    (machine,) = fleet.nodes
    for name in ("dns", "watched"):
        fleet.add_role(name, Role(barclamp="fleet", jig="noop", hooks=("on_node_change",)))
    annealer = fleet.annealer(probe_seconds=60.0)
    annealer.begin(PYTHONPATH=str(package(fleet.folder / "site", NOWHERE, ("dns", "watched"))))
    fleet.set_node(machine, hooks=("on_node_change",), changed={"tags": ""})
    fleet.until(lambda: not fleet.node(machine).hooks, "the hooks have run")
    assert fleet.node(machine).rack == "r1"
    assert annealer.metric('nodepool_ocb_hook_failures_total{hook="on_node_change"}') > 0


def test_code_that_one_host_cannot_load_is_a_fault_of_no_noderole(fleet: Fleet) -> None:
    fleet.add_role("watched", Role(barclamp="fleet", jig="noop", hooks=("on_active",)))
    noderole = fleet.bind("watched", fleet.nodes[0])
    broken = fleet.annealer().begin(PYTHONPATH=str(package(fleet.folder / "broken", "import nothing_of_this_name\n")))
    fleet.until(lambda: "its code cannot be used on this host (role watched is left out: " in broken.said, "it is said")
    assert (fleet.state(noderole), fleet.record(noderole).hooks) == (State.ACTIVE, ("on_active",))
    whole = "from nodepool_ocb.catalogue.code import Role as Watched\n"
    fleet.annealer().begin(PYTHONPATH=str(package(fleet.folder / "site", whole)))
    fleet.until(lambda: fleet.record(noderole).hooks == (), "another has run it")
    assert fleet.state(noderole) is State.ACTIVE
