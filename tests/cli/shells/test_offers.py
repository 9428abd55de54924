"""What completion offers, in any shell: the line up to the cursor → the words that may stand there."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest
from click.shell_completion import CompletionItem

from nodepool_ocb.cli.kit import selecting
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.main import cli
from nodepool_ocb.cli.shells import completing
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.noderole import State
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Daemon, Node, Run
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.processes import free_port
from tests.cli.shells.offering import offered
from tests.fixtures.commands import Ocb

N1 = "n1.example.com"
MIDDLE = f"middle@{N1}"
BREAKS = " \t\n\"'@><=;|&(:"  # of bash, as it comes


@pytest.fixture
def lab(world: Session, ocb: Ocb, becomes: Callable[..., None]) -> Session:
    """What there is to name: a set attribute, a run, a rollout's group, a rack."""
    for line in (f"noderole set {MIDDLE} middle-size=3", f"node set {N1} rack=r1"):
        assert ocb(*line.split()).exit_code == 0
    becomes(MIDDLE, State.ACTIVE)
    run = Run(annealer="a", started=1.0, ended=2.0, outcome="succeeded", generation=1, epoch=1)
    world.commit([Create(paths.run("middle", N1, "0000000001-a"), run)])
    world.commit([Create(paths.rollouts("lab"), None), Create(paths.rollout("lab", "0000000000"), None)])
    world.commit([Create(paths.rollout("lab", "0000000000", part), None) for part in ("groups", "groups/controllers")])
    world.ensure(paths.build("jammy", "0000000001"))
    return world


#: A line up to the cursor → what may stand there.
OFFERS = {
    "noder": ["noderole"],
    "role show mid": ["middle"],
    "node show n": [N1],
    "graph --deployment l": ["lab"],
    "noderole show mid": [MIDDLE],
    f"noderole set {MIDDLE} ": ["middle-size=", "middle/size="],
    f"noderole unset {MIDDLE} ": ["middle/size"],
    f"noderole attributes {MIDDLE} ": ["middle-size", "middle/size"],
    f"noderole log {MIDDLE} ": ["0000000001-a"],
    "deployment set lab middle middle-": ["middle-size="],
    "rollout show lab": ["lab", "lab/0000000000"],
    "rollout promote ": ["controllers"],
    "node list --label=": ["--label=room=1"],
    "node create n2.example.com --rack ": ["r1"],
    f"node set {N1} al": ["alive=", "allow_install="],
    "node lst ": [],
    "node show -- n": [N1],
    "image delete jammy --build ": ["0000000001"],
    "noderole set nobody ": [],
}


@pytest.mark.usefixtures("lab")
def test_completion_offers_existing_names() -> None:
    assert {line: offered(line) for line in OFFERS} == OFFERS


def test_an_answer_is_one_line_whatever_a_help_text_holds() -> None:
    fish = completing.Fish(cli, {}, "nodepool-ocb", completing.VARIABLE)
    assert fish._answer(CompletionItem("x", help="one\n  two\tthree"), "x") == "plain\tx\tone two three"


@pytest.mark.usefixtures("lab")
def test_no_more_is_offered_than_a_person_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completing, "MOST", 2)
    assert len(offered("")) == 2


@pytest.mark.usefixtures("lab")
def test_bash_replaces_what_is_behind_the_last_letter_at_which_it_divides_words() -> None:
    divided = {completing.BREAKS: BREAKS}
    assert offered(f"noderole show {MIDDLE[:-3]}", "bash", **divided) == [f"@{N1}"]
    assert offered(f"noderole show '{MIDDLE[:-3]}", "bash", **divided) == [MIDDLE]
    assert offered("node list --label=room=", "bash", **divided) == ["1"]


def test_no_name_is_offered_that_is_written_otherwise_than_it_looks(world: Session) -> None:
    world.commit([Create(paths.node("n2\u202e1.example.com"), Node())])
    assert offered("node show n") == [N1]


def test_of_very_many_nodes_the_role_is_offered_first(world: Session) -> None:
    world.commit([Create(paths.node(f"m{number:03}"), Node()) for number in range(201)])
    assert offered("noderole show mi") == ["middle@"]
    assert offered("noderole show middle@") == [MIDDLE]


def test_the_ids_of_daemons_are_offered_to_be_paused(world: Session) -> None:
    world.ensure(paths.daemons("annealer"))
    world.commit([Create(paths.daemon("annealer", "a1"), Daemon(host="h", pid=1, version="1", started=0.0))])
    assert offered("daemon pause ") == offered("daemon resume a") == ["a1"]


def test_nothing_is_offered_and_nothing_said_without_zookeeper(
    monkeypatch: pytest.MonkeyPatch, zk_settings: ZooKeeperSettings
) -> None:
    monkeypatch.setenv("NODEPOOL_OCB_ZOOKEEPER", f"127.0.0.1:{free_port()}")
    assert offered("node show ") == []
    monkeypatch.setenv("NODEPOOL_OCB_ZOOKEEPER", zk_settings.hosts)  # a server, and no cluster
    assert offered("node show ") == []


#: A selector up to the cursor → how it may go on.
SELECTORS = {
    "tag:": ["tag:web"],
    "not rack:r": ["not rack:r1"],
    "tag:web (label:": ["tag:web (label:room=1"],
    "tag:web ro": ["tag:web role:"],
    "role:mid": ["role:middle"],
    "state:ERR": ["state:ERROR"],
    "alive:": ["alive:no", "alive:yes"],
    "deployment:lab,l": ["deployment:lab,lab"],
    "nosuch:": [],
}


@pytest.mark.usefixtures("lab")
def test_a_selector_goes_on_with_its_criteria_and_with_the_values_that_there_are() -> None:
    @click.command(cls=Verb)
    @selecting.selector_option
    def verb(selector: str) -> None: ...

    (option,) = (each for each in verb.params if each.name == "selector")
    root = cli.make_context("nodepool-ocb", ["node"], resilient_parsing=True)
    context = click.Context(verb, info_name="verb", parent=root)
    found = {typed: [item.value for item in option.shell_complete(context, typed)] for typed in SELECTORS}
    assert found == SELECTORS
