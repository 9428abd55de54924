"""The view of machines that wait: the facts, the node that a rule would make, and their adoption by a person."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.keys import Keys

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.joining import MachineRegistration
from nodepool_ocb.model.networks import MacOwner
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.joining import JoiningMachine, record
from tests.api.served import ServedApi, problem
from tests.fixtures.chroots import fresh
from tests.page.browser import Browser, why_not

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

ADOPT = "[data-action=adopt]"


@pytest.fixture(scope="module")
def waited(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedApi]:
    made = ServedApi(ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('machines')}"), tmp_path_factory.mktemp("api"))
    yield made
    made.close()


@pytest.fixture
def machine(waited: ServedApi) -> JoiningMachine:
    """It waits; a rule that commits nothing and fits no machine is there."""
    waited.ask("PATCH", "/v1/adoption-rules/none", {"assignments": ["name=x.example.com", "when=memory>1P"]})
    made = JoiningMachine(waited, waited.direct.token(f"join-{JoiningMachine.made}", "join"))
    assert made.register().status_code == 200
    made.poll()
    return made


def test_a_waiting_machine_is_adopted_by_its_button(
    browser: Browser, waited: ServedApi, machine: JoiningMachine
) -> None:
    browser.enter(waited.address, waited.direct.token("olga", "operator"))
    browser.press("g", "w")
    browser.one("h1", "Machines")
    browser.shows(machine.mac)
    browser.shows("64 GiB")
    browser.shows("no rule fits; none: not memory>1P")
    browser.click(f"[data-key='Adopt: {machine.mac}']")
    browser.shows("Type first: Node.")
    browser.one("#ask-name").send_keys("lab1.example.com", Keys.TAB)
    browser.shows("create node lab1.example.com")
    command = browser.script("return document.querySelector('dialog pre').textContent")
    assert command.startswith(f"nodepool-ocb node adopt {machine.mac} lab1.example.com --deployment system --reason")
    browser.one("#reason").send_keys("it stands in rack 7")
    button = browser.one("dialog button.primary")
    browser.until(button.is_enabled, "the button")
    button.click()
    browser.until(lambda: browser.script("return document.querySelector('dialog') === null"), "the end of the dialog")
    browser.click("main td a", "lab1.example.com")
    browser.one("h1", "lab1.example.com")
    assert record(waited, MacOwner, paths.mac(machine.mac)).node == "lab1.example.com"
    assert machine.poll()["node"] == "lab1.example.com"
    assert browser.console() == []


def test_a_waiting_machine_is_forgotten_by_its_button(
    browser: Browser, waited: ServedApi, machine: JoiningMachine
) -> None:
    browser.enter(waited.address, waited.token)
    browser.go("#/machines")
    browser.click(f"[data-key='Forget: {machine.mac}']")
    browser.shows("delete registration")
    browser.one("#reason").send_keys("a laptop")
    button = browser.one("dialog button.primary")
    browser.until(button.is_enabled, "the button")
    button.click()
    browser.until(lambda: machine.mac not in browser.text, "the end of the row")
    assert record(waited, MachineRegistration, paths.registration(machine.mac)) is None
    assert browser.console() == []


def test_a_viewer_sees_the_machines_without_a_button_and_may_adopt_none(
    browser: Browser, waited: ServedApi, machine: JoiningMachine
) -> None:
    viewer = waited.direct.token("vera", "viewer")
    browser.enter(waited.address, viewer)
    browser.go("#/machines")
    browser.shows(machine.mac)
    assert browser.script(f"return [...document.querySelectorAll('{ADOPT}')].every(each => !each.checkVisibility())")
    refused = waited.ask("POST", "/v1/operations/node/adopt", {"fields": {"mac": machine.mac, "name": "v.x.y"}}, viewer)
    assert problem(refused)[0] == 403
    assert record(waited, MachineRegistration, paths.registration(machine.mac)).node is None
    limited = waited.direct.token("lisa", "operator", deployments=("system",))
    browser.enter(waited.address, limited)
    browser.go("#/machines")
    browser.shows("This view is closed to your token")


def test_the_facts_of_a_machine_are_shown_as_text(browser: Browser, waited: ServedApi) -> None:
    hostile = JoiningMachine(
        waited, waited.direct.token("evil", "join"), serial="<img src=x onerror=alert(1)>", product="\u202ecba"
    )
    assert hostile.register().status_code == 200
    browser.enter(waited.address, waited.token)
    browser.go("#/machines")
    browser.shows("<img src=x onerror=alert(1)>")
    assert browser.script("return document.querySelectorAll('main img').length") == 0
    assert browser.console() == []
