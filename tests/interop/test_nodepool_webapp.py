"""Nodepool 11's own web application and our server over one tree: each page is the same, as JSON and as text."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from msgspec.structs import replace

from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState, Pause, Upload, UploadState
from nodepool_ocb.model.pool import PoolComponent
from nodepool_ocb.model.records import Create, LockOwner
from nodepool_ocb.store import nodepool11 as tree11
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Locks
from nodepool_ocb.testing.processes import await_that
from nodepool_ocb.testing.zookeeper.guarded import SUPERUSER, Guarded
from nodepool_ocb.testing.zookeeper.server import free_port
from tests.api.served import ServedApi
from tests.fixtures.upstream import SCRIPTS
from tests.interop.test_nodepool_commands import nodes, requests

pytestmark = pytest.mark.long

SECONDS: Final = 60
SETTLED_SECONDS: Final = 10
PAGES: Final = ("/image-list", "/dib-image-list", "/node-list", "/request-list", "/label-list", "/image-status")
AGE: Final = re.compile(r"\b\d\d:\d\d:\d\d:\d\d\b")


def write(session: Session) -> None:
    """A record of each kind in each of its states; one node is locked, and one image is paused."""
    now = session.now()
    session.ensure(paths.POOL_NODES, paths.REQUESTS, paths.REQUEST_LOCKS, paths.components("pool"))
    session.commit([Create(paths.pool_node(id), record) for id, record in nodes(now).items()])
    session.commit([Create(paths.request(id), record) for id, record in requests(now).items()])
    pool = PoolComponent(
        hostname="l", id="l-north-main", name="main", provider_name="north", supported_labels=("small", "big"),
        state="running", kind="pool",
    )  # fmt: skip
    session.commit([Create(f"{paths.components('pool')}/l0000000001", pool)])
    owner = LockOwner(daemon="zuul", host="z", pid=1, purpose="use", since=now)
    assert Locks(session).take(paths.pool_node_lock("0000000003"), owner)
    for image in ("jammy", "noble"):
        session.ensure(paths.builds(image))
        for number, state in enumerate(each for each in BuildState if each is not BuildState.ABORTED):
            id = f"{number:010}"
            build = Build(
                builder="b1", builder_id="x", filename=f"{image}-{id}", state=state, state_time=now,
                formats=("qcow2", "raw") if state is BuildState.READY else (), username="root", python_path="auto",
            )  # fmt: skip
            session.commit([Create(paths.build(image, id), build)])
    session.commit([Create(paths.pause("noble"), Pause(by="ann"))])
    session.ensure(paths.uploads("jammy", "0000000001", "north"))
    for number, each in enumerate(UploadState, 1):
        upload = Upload(
            state=each, state_time=now, format="raw", external_id=f"e{number}", external_name=f"n{number}", username="root",
            python_path="auto",
        )  # fmt: skip
        session.commit([Create(paths.upload("jammy", "0000000001", "north", f"{number:010}"), upload)])


class Servers:
    """Nodepool's server and ours."""

    def __init__(self, guarded: Guarded, nodepool11: Path, folder: Path) -> None:
        settings = replace(guarded.settings(SUPERUSER), username=None, password=None)
        with Session(settings) as root:
            root.ensure("/site")
        self.settings = replace(guarded.settings(SUPERUSER, "/site"), username=None, password=None)
        self.api = ServedApi(self.settings, folder, layout="nodepool")
        self.session = Session(self.settings, tree=tree11.tree("nodepool"))
        self.session.start()
        write(self.session)
        port = free_port()
        files = {"cert": "client.crt", "key": "client.key", "ca": "ca.pem"}
        order = {key: str(guarded.folder / name) for key, name in files.items()}
        order |= {"hosts": self.settings.hosts, "port": port}
        command = [nodepool11 / "python", SCRIPTS / "webapp.py"]
        self.theirs = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.theirs.stdin is not None
        assert self.theirs.stdout is not None
        self.theirs.stdin.write(json.dumps(order) + "\n")
        self.theirs.stdin.flush()
        assert self.theirs.stdout.readline() == "listening\n"
        self.address = f"http://127.0.0.1:{port}"

    def close(self) -> None:
        self.theirs.terminate()
        self.theirs.wait(SECONDS)
        for stream in (self.theirs.stdin, self.theirs.stdout):
            assert stream is not None
            stream.close()
        self.session.close()
        self.api.close()

    def both(self, path: str, accept: str) -> tuple[httpx.Response, httpx.Response]:
        headers = {"Accept": accept}
        return httpx.get(self.address + path, headers=headers), self.api.ask("GET", path, **headers)


@pytest.fixture(scope="module")
def servers(nodepool11: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with Guarded(demands_user=False) as guarded:
        made = Servers(guarded, nodepool11, tmp_path_factory.mktemp("webapp"))
        yield made
        made.close()


def settled(text: str) -> list[str]:
    """The lines without ages, in an order of their own: Nodepool's cache has none."""
    return sorted(AGE.sub("DD:HH:MM:SS", text).splitlines())


def rows(answer: httpx.Response) -> list[Any]:
    found = json.loads(AGE.sub("DD:HH:MM:SS", answer.text))
    return sorted(found, key=json.dumps)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_that_of_nodepools_web_application(servers: Servers, path: str) -> None:
    def equal() -> bool:
        theirs, ours = map(rows, servers.both(path, "application/json"))
        return bool(theirs) and theirs == ours

    with suppress(RuntimeError):  # the difference is shown below
        await_that(equal, SETTLED_SECONDS, "it knows the registered pools")
    theirs, ours = servers.both(path, "application/json")
    assert rows(ours) == rows(theirs)
    assert ours.headers["content-type"].partition(";")[0] == theirs.headers["content-type"].partition(";")[0]
    for query in ("", "?fields=id,state,image,label"):
        theirs, ours = servers.both(path + query, "*/*")
        assert settled(ours.text) == settled(theirs.text)
        assert ours.headers["content-type"].lower() == theirs.headers["content-type"].lower().replace("; ", "; ")


@pytest.mark.parametrize(
    "accept", ["text/html", "text/plain", "application/json", "text/*;q=0.5, application/json", "*/*"]
)
def test_the_accept_header_chooses_as_at_nodepools(servers: Servers, accept: str) -> None:
    theirs, ours = servers.both("/label-list", accept)
    assert ours.text.startswith("[") == theirs.text.startswith("[")


def test_a_node_by_its_id_and_readiness_are_those_of_nodepool(servers: Servers) -> None:
    for path in ("/node-list?node_id=0000000003", "/node-list?node_id=9", "/ready"):
        theirs, ours = servers.both(path, "application/json")
        if path == "/ready":
            assert ours.text == theirs.text
        else:
            assert rows(ours) == rows(theirs)
