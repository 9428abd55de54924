"""A run of a noderole whose log a page serves, as an annealer does."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.http import logs
from nodepool_ocb.http.certificates import OwnCertificate
from nodepool_ocb.http.logs import LogPage
from nodepool_ocb.http.page import PrivatePages
from nodepool_ocb.http.server import Pages
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Claim, Create, Daemon, Deployment, Node, NodeRole, Run, Set, State
from nodepool_ocb.store import logkeys
from nodepool_ocb.store.client.session import Session

FQDN: Final = "n1.example.com"
RUN: Final = "0000000001-c0ffee10"


class LoggedRun:
    """A run of a noderole, as an annealer writes it: its records, its page and the file of its log."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.ended = False
        self._session = session
        self.file = logs.file_of(folder, logs.of_run("base", FQDN, RUN))
        self.file.parent.mkdir(parents=True)
        self.file.touch()
        self.certificate = OwnCertificate()
        self.readers = logkeys.Readers(session)
        page = LogPage(lambda: folder, lambda name: self.ended or not name.endswith(RUN))
        self.pages = Pages("127.0.0.1:0", {}, PrivatePages({"logs": page}, self.certificate, self.readers))
        self._annealer = Daemon(
            host=socket.gethostname(),
            pid=1,
            version="1",
            started=1.0,
            pages=self.pages.address,
            log_dir=str(folder),
            certificate=self.certificate.digest,
        )
        self.going = NodeRole(state=State.TRANSITION, since=1.0, deployment="lab", run=RUN, by="a-1", generation=1)
        session.commit([Create(paths.deployment("lab"), Deployment()), Create(paths.deployment("web"), Deployment())])
        session.commit([Create(paths.node(FQDN), Node(deployment="lab"))])
        session.ensure(f"{paths.node(FQDN)}/noderoles", f"{paths.DAEMONS}/annealer")
        session.commit([Create(paths.noderole("base", FQDN), self.going)])
        session.commit([Create(paths.daemon("annealer", "a-1"), self._annealer)])
        session.commit(
            [Create(paths.claim(FQDN), Claim(annealer="a-1", noderole=f"base@{FQDN}", run=RUN, epoch=1, since=1.0))]
        )

    def register(self, **fields: Any) -> None:
        """The annealer's record, with other fields."""
        znode = self._session.get(paths.daemon("annealer", "a-1"))
        assert znode is not None
        self._session.commit([Set(znode.path, replace(self._annealer, **fields), znode.version)])

    def write(self, data: bytes) -> None:
        with self.file.open("ab") as out:
            out.write(data)

    def before(self, run: str, data: bytes, tail: str) -> None:
        """A run that failed earlier; ``tail`` is the recorded end of its output."""
        name = logs.of_run("base", FQDN, run)
        (self.file.parent / f"{name.rpartition('/')[2]}.log").write_bytes(data)
        record = Run(
            annealer="a-1", started=0.5, ended=0.9, outcome="failed", generation=1, epoch=1, exit_code=1, tail=tail,
            log=f"{self._annealer.host}:{name}.log",
        )  # fmt: skip
        self._session.ensure(f"{paths.noderole('base', FQDN)}/runs")
        self._session.commit([Create(paths.run("base", FQDN, run), record)])

    def end(self) -> None:
        """The run ends well."""
        self.ended = True
        record = Run(annealer="a-1", started=1.0, ended=2.0, outcome="succeeded", generation=1, epoch=1)
        self._session.ensure(f"{paths.noderole('base', FQDN)}/runs")
        done = NodeRole(state=State.ACTIVE, since=1.0, deployment="lab", run=RUN, by="a-1", generation=1)
        self._session.commit([Set(paths.noderole("base", FQDN), done, 0), Create(paths.run("base", FQDN, RUN), record)])
