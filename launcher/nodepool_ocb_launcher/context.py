"""The context of every room of the launcher: its id, its session and locks, its configuration and its providers."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping

from nodepool_ocb.config import Settings
from nodepool_ocb.jigs.ssh.keys import NoKey, load_keys
from nodepool_ocb.model.records import LockOwner
from nodepool_ocb.pool.configuration import LaunchProvider, PoolConfiguration, PoolLabel, PoolLabelPolicy, ProviderPool
from nodepool_ocb.pool.launches.launching import LaunchSeconds
from nodepool_ocb.pool.views import PoolNodeView, ReadyImage
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.machines import MachineStamp
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import HeldLocks
from nodepool_ocb.store.pool.journal import PoolJournal
from nodepool_ocb.views.history.pooling import EntryAuthor
from nodepool_ocb_launcher.roster import Roster


class LauncherContext:
    """One launcher's place of work. ``halt`` is set when the present work must end at once; a new session has another one."""

    def __init__(
        self,
        session: Session,
        settings: Settings,
        configuration: PoolConfiguration,
        providers: Mapping[str, MachineCalls],
        wake: Callable[[], None],
    ) -> None:
        self.session, self.locks, self.journal = session, HeldLocks(session), PoolJournal(session)
        self.host = socket.gethostname()
        self.id = f"{self.host}-{uuid.uuid4().hex}"  # as Nodepool makes it
        self.cluster = ""  # known once there is a session
        self.admin_domain: str | None = None
        self.halt = threading.Event()
        #: the nodes as they are now, and the ids of unreadable ones; on the turn thread
        self.records: Callable[[], tuple[Mapping[str, PoolNodeView], set[str]]] = lambda: ({}, set())
        self.roster = Roster(session, wake)
        self.images: Mapping[tuple[str, str], ReadyImage] = {}  # of the newest turn
        self.machines: Mapping[str, int] = {}  # by provider, of the newest turn
        self.configure(settings, configuration, providers)

    def configure(
        self, settings: Settings, configuration: PoolConfiguration, providers: Mapping[str, MachineCalls]
    ) -> None:
        """Take over a configuration; work under way keeps the calls that it began."""
        self.settings, self.configuration, self.providers = settings, configuration, providers
        for calls in providers.values():
            calls.join(self.roster.questions)

    def holder(self, purpose: str) -> LockOwner:
        """The record of a lock of ours."""
        return LockOwner(daemon="launcher", host=self.host, pid=os.getpid(), purpose=purpose, since=self.session.now())

    def author(self) -> EntryAuthor:
        """Of an entry of the journal that is written now."""
        return EntryAuthor(self.host, self.session.now())

    def stamp(self, provider: str, pool: str, node: str, key: str) -> MachineStamp:
        """The stamp of an attempt to launch a node."""
        return MachineStamp(cluster=self.cluster, provider=provider, pool=pool, node=node, key=key)

    def public_keys(self) -> tuple[str, ...]:
        """The public parts of the keys that this host logs in with, for machines that annealers work on."""
        try:
            return tuple(f"{key.get_name()} {key.get_base64()}" for key in load_keys(self.settings.ssh))
        except NoKey:
            return ()

    def place(self, provider: str | None, pool: str | None) -> tuple[LaunchProvider, ProviderPool] | None:
        """The configured provider and pool of these names."""
        found = self.configuration.providers.get(provider or "")
        below = None if found is None else found.pools.get(pool or "")
        return None if found is None or below is None else (found, below)

    def policy(self, label: str) -> PoolLabelPolicy:
        """The policy of a label; a label that only a pool has gets the defaults."""
        return self.configuration.labels.get(label) or PoolLabelPolicy(name=label)

    def seconds(self, provider: LaunchProvider, label: PoolLabelPolicy) -> LaunchSeconds:
        """The deadlines of a launch."""
        return LaunchSeconds(
            create=provider.launch_seconds,
            boot=provider.launch_seconds,
            keyscan=provider.boot_seconds,
            roles=label.roles_seconds,
            delete=self.settings.launcher.delete_seconds,
        )


def label_of(pool: ProviderPool, labels: tuple[str, ...] | str) -> PoolLabel | None:
    """The label of a node, as its pool offers it."""
    names = (labels,) if isinstance(labels, str) else labels
    return next((pool.labels[name] for name in names if name in pool.labels), None)
