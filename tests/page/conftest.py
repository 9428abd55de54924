"""A small tree with a server of the API, and a browser that shows its page: one of each for all tests of a process.

A test enters by itself (``page``), and changes no record that another one looks at: tests of one file may run in two processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNode, PoolNodeState
from nodepool_ocb.model.records import Create, Role, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.issuer import CLIENT, Issuer
from tests.api.logged import LoggedRun
from tests.api.served import ServedApi
from tests.fixtures.chroots import fresh
from tests.page import tree
from tests.page.browser import Browser

LEASE: Final = "0000000007"
EARLIER: Final = "0000000000-aaaaaaaa"  # a run of base, which failed
EARLIER_LOG: Final = "it begins here\n" + 900 * "a line\n" + "E: disk full\n"


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    """The provider at which people may sign in; those of group ``ops`` are operators."""
    made = Issuer()
    yield made
    made.stop()


class ServedTree(ServedApi):
    """The server; ``operator`` is the token of olga, and ``logged`` a run that goes on."""

    operator: str
    logged: LoggedRun


@pytest.fixture(scope="session")
def served(zookeeper: Server, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedTree]:
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('page')}")
    tree.write(settings, nodes=8, roles=3)
    with Session(settings) as session:
        tree.plant(session)
        tree.change(session, "step-2-0@n0003.example.com", state=State.TODO)  # on the node that is held
        session.ensure(paths.POOL_NODES)
        leased = PoolNode(
            state=PoolNodeState.HOLD, state_time=1.0, type=("small",), interface_ip="10.0.0.7", comment="ann"
        )
        session.commit([Create(paths.role("base"), Role(barclamp="chain", jig="noop"))])
        session.commit([Create(paths.pool_node(LEASE), leased)])
        logged = LoggedRun(session, tmp_path_factory.mktemp("runs"))
        logged.before(EARLIER, EARLIER_LOG.encode(), EARLIER_LOG[-40:])
        secret = tmp_path_factory.mktemp("oidc") / "secret"
        secret.write_text("s&cret\n")
        secret.chmod(0o600)
        oidc = {
            "issuer": issuer.url,
            "client_id": CLIENT,
            "client_secret_file": str(secret),
            "roles": {"ops": {"role": "operator"}},
        }
        made = ServedTree(settings, tmp_path_factory.mktemp("api"), oidc=oidc)
        made.logged, made.operator = logged, made.direct.token("olga", "operator")
        made.call("node/hold", {"nodes": ["n0003.example.com"], "reason": "waits for a disk"})
        yield made
        made.close()
        logged.pages.close()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture
def page(browser: Browser, served: ServedTree) -> Browser:
    """The browser with olga's session, at the overview."""
    browser.look(1280, 900)
    browser.enter(served.address, served.operator)
    return browser
