"""A builder's part, played by a test: it writes the records that a builder would write."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from nodepool_ocb.images.rules import BuildView, ImageView
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState, Upload, UploadState
from nodepool_ocb.model.records import Create, Daemon, Delete, LockOwner, Set
from nodepool_ocb.store import images
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Lock, Locks

HOST = socket.gethostname()


class Builder:
    """Builds ``image`` with records alone."""

    def __init__(self, session: Session, image: str = "jammy", host: str = HOST) -> None:
        self.session = session
        self.image = image
        self.host = host
        self.locks = Locks(session)
        self.lock: Lock | None = None
        session.ensure(paths.builds(image))

    @property
    def id(self) -> str:
        return f"id-of-{self.host}"

    def view(self) -> ImageView:
        return images.read(self.session, [self.image])[self.image]

    def build_view(self, id: str) -> BuildView:
        found = self.view().build(id)
        assert found is not None
        return found

    def registers(self, pages: str | None = None, **fields: Any) -> None:
        """As a daemon that is running; ``fields`` are more of its record."""
        self.session.ensure(paths.daemons("builder"))
        daemon = Daemon(host=self.host, pid=1, version="1", started=1.0, slots=1, pages=pages, **fields)
        path = paths.daemon("builder", self.id)
        there = self.session.get(path)
        change = Create(path, daemon, ephemeral=True) if there is None else Set(path, daemon, there.version)
        self.session.commit([change])

    def leaves(self) -> None:
        znode = self.session.get(paths.daemon("builder", self.id))
        assert znode is not None
        self.session.commit([Delete(znode.path, znode.version)])

    def begins(self, **fields: Any) -> str:
        """A build, under the lock, for the request that stands there; gives its id."""
        holder = LockOwner(daemon=self.id, host=self.host, pid=1, purpose=f"build of {self.image}", since=time.time())
        self.lock = self.lock or self.locks.take(paths.build_lock(self.image), holder)
        assert self.lock is not None
        request = self.view().request
        return self.made(BuildState.BUILDING, request=request.mzxid if request else 0, **fields)

    def made(self, state: BuildState = BuildState.READY, **fields: Any) -> str:
        """A build in a state, without a lock."""
        record = Build(
            builder=self.host,
            builder_id=self.id,
            filename="",
            state=state,
            state_time=time.time(),
            started=time.time(),
        )
        record = replace(record, **fields)
        path = self.session.create_next(f"{paths.builds(self.image)}/", record)
        id = path.rpartition("/")[2]
        self.sets(id, filename=f"{self.image}-{id}")
        return id

    def sets(self, id: str, **fields: Any) -> None:
        view = self.build_view(id)
        self.session.commit([Set(paths.build(self.image, id), replace(view.record, **fields), view.version)])

    def ends(self, id: str, state: BuildState, **fields: Any) -> None:
        """The build's end, and that of the request where it was ready."""
        view = self.view()
        build = self.build_view(id)
        record = replace(build.record, state=state, state_time=time.time(), **fields)
        changes: list[Set | Delete] = [Set(paths.build(self.image, id), record, build.version)]
        if state is BuildState.READY and view.request and view.request.mzxid == record.request:
            changes.append(Delete(paths.request_build(self.image), view.request.version))
        self.session.commit(changes)
        self.dies()

    def dies(self) -> None:
        """The lock goes, the record stays."""
        assert self.lock is not None
        self.locks.release(self.lock)
        self.lock = None

    def uploads(self, build: str, provider: str, state: UploadState = UploadState.READY, **fields: Any) -> str:
        container = paths.uploads(self.image, build, provider)
        self.session.ensure(container)
        given: Mapping[str, Any] = {"format": "qcow2", "state_time": time.time(), "builder": self.host, **fields}
        path = self.session.create_next(f"{container}/", Upload(state=state, **given))
        return path.rpartition("/")[2]

    def locks_upload(self, build: str, provider: str) -> None:
        holder = LockOwner(daemon=self.id, host=self.host, pid=1, purpose=f"upload to {provider}", since=time.time())
        assert self.locks.take(paths.upload_lock(self.image, build, provider), holder) is not None
