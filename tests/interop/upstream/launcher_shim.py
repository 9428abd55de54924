"""Our launcher in the place of the launcher that Nodepool's tests start.

``install`` replaces ``useNodepool`` of the tests; the commands of Nodepool keep its class. Each pool of a test is our daemon: its
``run``, on a thread, with the test's nodepool.yaml, layout nodepool, and the test's ZooKeeper by TLS. Machines are those of
``upstream_cloud``. The shim answers questions of a test about the launcher from ZooKeeper and the daemon; it decides nothing.

- Host keys of machines with ``fake`` in their name come from Nodepool's own scan, which the tests break. A scan of a launched
  machine that times out takes the time of ``boot-timeout``, which is short here.
- Our times for sweeps, listings and leaks are shorter, as those of Nodepool's tests are.
- ``wait_for_threads`` waits for no thread: threads of our daemons are no sign of work.
- Statistics of statsd have no counterpart, but for the numbers of nodes and leaks: those are compared with our metrics, and
  ``assertReportedStat`` passes over the others.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import nodepool.tests
import upstream_cloud
import yaml
from msgspec.structs import replace

import nodepool_ocb.daemon.life
import nodepool_ocb.daemon.reloading
import nodepool_ocb_launcher.launching
import nodepool_ocb_launcher.main
from nodepool_ocb import config
from nodepool_ocb.daemon.command import CommandOptions
from nodepool_ocb.images import nodepool as nodepool_file
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.records import Set
from nodepool_ocb.pool.capacity.ledger import LAUNCHING
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabelPolicy
from nodepool_ocb.pool.idle import leaks
from nodepool_ocb.pool.launches.launching import LaunchSeconds
from nodepool_ocb.pool.states import pool_node_in
from nodepool_ocb.providers import launching, static
from nodepool_ocb.store import clusters, nodepool11
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.telemetry.metrics import REGISTRY
from nodepool_ocb_launcher.context import LauncherContext
from nodepool_ocb_launcher.launcher import Launcher

log = logging.getLogger(__name__)

START_SECONDS: Final = 30.0
QUOTA_SECONDS: Final = 5.0
STOP_SECONDS: Final = 40.0
LEAK_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.02
QUICK: Final = {"sweep_seconds": 2.0, "quota_seconds": 1.0, "drain_seconds": 2.0}
DRIVERS: Final = ("fake", "openstack")  # for which upstream_cloud stands
STAT_SECONDS: Final = 5.0  # as long as Nodepool's tests wait for one

_started: dict[int, Launcher] = {}  # by the thread that serves


def install() -> None:
    """Replace Nodepool's launcher, and the parts of ours that would reach real machines."""
    base, tests = nodepool.tests.BaseTestCase, nodepool.tests.DBTestCase
    base.wait_for_threads, base.assertReportedStat = _wait_for_no_thread, _assert_reported
    tests.useNodepool, tests.startPool = _use_pool, _start_pool
    _replace_machines()
    nodepool_ocb_launcher.main.Launcher = _Noted  # type: ignore[misc]
    nodepool_ocb.daemon.life.metrics.SessionCounts = lambda _: None  # type: ignore[misc,assignment]  # one a process
    nodepool_ocb.daemon.reloading.setup_logging = lambda _: None  # the log is the test's


def _replace_machines() -> None:
    leaks.LEAK_SECONDS = LEAK_SECONDS
    found, seconds = launching._DRIVERS.driver, LauncherContext.seconds

    def driver(name: str) -> Any:
        return upstream_cloud.AdapterMachines if name in DRIVERS else found(name)

    launching._DRIVERS.driver = driver  # type: ignore[method-assign]
    nodepool_ocb_launcher.launching.host_keys = upstream_cloud.scanned
    static.host_keys, static.listens = upstream_cloud.answered, upstream_cloud.listens
    static.StaticMachines._may_log_in = lambda *_: False  # type: ignore[method-assign]

    def shorter(self: LauncherContext, provider: LaunchProvider, label: PoolLabelPolicy) -> LaunchSeconds:
        known = seconds(self, provider, label)
        return replace(known, keyscan=min(known.keyscan, upstream_cloud.BOOT_SECONDS))

    LauncherContext.seconds = shorter  # type: ignore[method-assign]


class _Noted(Launcher):
    """A launcher that its pool finds."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        _started[threading.get_ident()] = self


class OurPool:
    """The parts of NodePool that the tests use."""

    def __init__(self, securefile: str | None, configfile: str, watermark_sleep: float = 0.0) -> None:
        del watermark_sleep
        self.cleanup_interval = self.delete_interval = 60.0
        self._file, self._secure = configfile, securefile
        self._thread: threading.Thread | None = None
        self._daemon: Launcher | None = None
        self._session: Session | None = None
        self._delete_thread = _NoThread()
        self._fault: BaseException | None = None

    def start(self) -> None:
        """Make the cluster where it is absent, and start our daemon; returns when its pools are registered."""
        upstream_cloud.FILES.append((self._file, self._secure))
        self._options = CommandOptions(self._written(), None, None)
        settings = self._options.read()
        read = nodepool_file.load(self._file, self._secure, environ=os.environ)
        assert read.zookeeper is not None
        self._session = Session(read.zookeeper, tree=nodepool11.tree(settings.layout))
        self._session.start()
        clusters.bootstrap(self._session)
        self._thread = threading.Thread(target=self._serve, args=[settings], name="NodePool", daemon=True)
        self._thread.start()
        self._await()

    def _await(self) -> None:
        """Wait until its pools are registered; then for the quotas of its providers, of which some do not answer."""
        ends = time.monotonic() + START_SECONDS
        while not (self._daemon and self._daemon.registration.stands and self._daemon.components.ids):
            if self._fault is not None:
                raise self._fault
            assert time.monotonic() < ends, "the launcher did not register its pools"
            time.sleep(LOOK_SECONDS)
            self._daemon = _started.get(self._thread.ident or 0) if self._thread else None
        daemon, ends = self._daemon, time.monotonic() + QUOTA_SECONDS
        while (
            not daemon.context.providers.keys() <= daemon.registration.record.quotas.keys() and time.monotonic() < ends
        ):
            time.sleep(LOOK_SECONDS)

    def stop(self) -> None:
        """As SIGTERM does."""
        if self._daemon is not None and self._thread is not None:
            self._daemon.turns.stop.set()
            self._daemon.turns.wake.set()
            self._thread.join(STOP_SECONDS)
            assert not self._thread.is_alive(), "the launcher does not end"
        if self._session is not None:
            self._session.close()

    def _serve(self, settings: config.Settings) -> None:
        try:
            nodepool_ocb_launcher.main.run(self._options, settings)
        except BaseException as error:
            log.exception("the launcher ended")
            self._fault = error

    def _written(self) -> Path:
        """Our own configuration file."""
        section = {"nodepool": self._file, "leak_seconds": max(0.5, min(self.cleanup_interval, 60.0)), **QUICK}
        if self._secure:
            section["secure"] = self._secure
        file = Path(tempfile.mkdtemp()) / "nodepool-ocb.yaml"
        file.write_text(yaml.safe_dump({"layout": "nodepool", "launcher": section}))
        return file

    # -- questions of the tests --

    @property
    def config(self) -> Any:
        """Nodepool's own reading of the file."""
        return upstream_cloud.configurations()[-1]

    def getProviderManager(self, name: str) -> Any:
        return _Manager(name, self)

    def getPoolWorkers(self, name: str) -> list[_Worker]:
        return [worker for key, worker in self._workers().items() if key[0] == name]

    @property
    def _pool_threads(self) -> dict[str, _Worker]:
        return {f"{provider}-{pool}": worker for (provider, pool), worker in self._workers().items()}

    def _workers(self) -> dict[tuple[str, str], _Worker]:
        daemon = self._daemon
        return {key: _Worker(self) for key in list(daemon.components.ids)} if daemon is not None else {}

    def waiting(self) -> list[str]:
        """The requests that a launcher holds, and that wait for room."""
        assert self._session is not None
        nodes = _records(self._session, paths.POOL_NODES, PoolNode)
        begun = [each.allocated_to for each in nodes.values() if each.state in LAUNCHING or each.state == "ready"]
        return [
            id
            for id, request in _records(self._session, paths.REQUESTS, NodeRequest).items()
            if request.state is RequestState.PENDING and begun.count(id) < len(request.node_types)
        ]

    def ask_for_deletion(self, id: str) -> None:
        assert self._session is not None
        znode = self._session.get(paths.pool_node(id))
        assert znode is not None
        record = pool_node_in(codec.decode(PoolNode, znode), PoolNodeState.DELETING, self._session.now())
        self._session.commit([Set(znode.path, record, znode.version)])


class _Worker:
    """A pool of our launcher. The requests that it holds are those of all pools."""

    def __init__(self, pool: OurPool) -> None:
        self._pool = pool

    @property
    def paused_handlers(self) -> list[str]:
        return self._pool.waiting()


class _Manager:
    """A provider: its adapter is the one that our launcher uses."""

    def __init__(self, name: str, pool: OurPool) -> None:
        self.adapter = upstream_cloud.adapter(name)
        self._pool = pool

    def startNodeCleanup(self, node: Any) -> _NoThread:
        """Ask for the deletion of a node that the test has locked, as a client does."""
        self._pool.ask_for_deletion(node.id)
        node.lock.release()
        return _NoThread()


class _NoThread:
    """A thread of Nodepool that our launcher does not have."""

    def stop(self) -> None: ...

    def join(self) -> None: ...


def _records(session: Session, folder: str, kind: Any) -> dict[str, Any]:
    names = sorted(session.children(folder) or ())
    found = session.get_many([f"{folder}/{name}" for name in names])
    pairs = zip(names, found, strict=True)
    return {name: codec.decode(kind, znode) for name, znode in pairs if znode is not None and znode.data}


# -- methods of the tests --


def _use_pool(test: Any, *arguments: str, secure_conf: str | None = None, **keys: float) -> OurPool:
    pool = OurPool(secure_conf, *arguments, **keys)
    pool.cleanup_interval = pool.delete_interval = 0.5
    test.addCleanup(pool.stop)
    return pool


def _start_pool(_test: Any, pool: OurPool) -> None:
    pool.start()


def _wait_for_no_thread(_test: Any) -> None: ...


def _assert_reported(_test: Any, key: str, value: str | None = None, kind: str | None = None) -> None:
    del kind
    metric = _metric(key)
    if metric is None or value is None:
        return
    ends = time.monotonic() + STAT_SECONDS
    while (found := REGISTRY.get_sample_value(*metric)) != float(value):
        assert time.monotonic() < ends, f"{metric} is {found}, and should be {value}"
        time.sleep(LOOK_SECONDS)


def _metric(key: str) -> tuple[str, dict[str, str]] | None:
    """Our metric with the number that Nodepool reports under this key; None if there is none."""
    words = key.split(".")
    if words[:2] == ["nodepool", "nodes"]:
        return "nodepool_ocb_pool_nodes", {"state": words[2]}
    if words[1] == "provider" and words[3:] == ["leaked", "instances"]:
        return "nodepool_ocb_machines_leaked_total", {"provider": words[2]}
    return None
