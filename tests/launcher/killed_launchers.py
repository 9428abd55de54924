"""Launchers in this process that are killed at a given moment: before or after a write to ZooKeeper or a call of the provider.

A killed launcher writes nothing and calls nothing any more, on none of its threads, and its session ends: as after SIGKILL. The
locks go with the session, at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest

from nodepool_ocb.config import LauncherSettings, Settings, SshSettings, ZooKeeperSettings
from nodepool_ocb.daemon.registration import of_this_process
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change
from nodepool_ocb.pool.configuration import LaunchProvider, PoolConfiguration
from nodepool_ocb.providers import launching
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_launcher.context import LauncherContext
from nodepool_ocb_launcher.launcher import Launcher

CALLS: Final = ("create", "renew", "find", "look", "delete")
COUNTED: Final = (paths.REQUESTS, paths.REQUEST_LOCKS, paths.POOL_NODES, paths.NODES)
WAIT_SECONDS: Final = 0.05


class Killed(SystemExit):
    """The process is dead: a thread that meets this ends without a word."""


class KilledLauncher:
    """A launcher that dies at its ``moment``-th moment, counted from 1; 0: never. ``moments`` names those that it reached."""

    def __init__(self, settings: ZooKeeperSettings, configuration: PoolConfiguration, moment: int = 0) -> None:
        self.moments: list[str] = []
        self.dead = threading.Event()
        self._moment, self._guard = moment, threading.Lock()
        self._session = Session(
            settings, on_lost=lambda: self._launcher.lost(), on_connected=lambda: self._launcher.turns.wake.set()
        )
        whole = Settings(launcher=LauncherSettings(drain_seconds=0.5), admin_domain="example.com")
        self.calls = {name: self.opened(provider, whole.ssh) for name, provider in configuration.providers.items()}
        context = LauncherContext(
            self._session, whole, configuration, self.calls, lambda: self._launcher.turns.wake.set()
        )
        self._launcher = Launcher(context, of_this_process())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._turns, name="launcher", daemon=True)

    def __enter__(self) -> KilledLauncher:
        self._session.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.dead.set()
        self._launcher.context.halt.set()
        self._launcher.turns.wake.set()
        self._thread.join(10.0)
        self._session.close()

    def _turns(self) -> None:
        turns = self._launcher.turns
        while not self._stopped.is_set():
            turns.wake.clear()
            wait = turns.turn()
            turns.wake.wait(min(wait, WAIT_SECONDS))

    def opened(self, provider: LaunchProvider, ssh: SshSettings) -> MachineCalls:
        """The calls to a provider."""
        return launching.open(provider, ssh)

    def owns(self, one: object) -> bool:
        """Whether a session or the calls of a provider are this launcher's."""
        return one is self._session or one in self.calls.values()

    def meet(self, name: str) -> None:
        """One more moment, perhaps the last; raises Killed from then on."""
        with self._guard:
            if not self.dead.is_set():
                self.moments.append(name)
                if self.ends(name):
                    self.dead.set()
        self.check()

    def ends(self, _name: str) -> bool:
        """Whether it dies at the last of its moments."""
        return len(self.moments) == self._moment

    def check(self) -> None:
        """Raises Killed if the launcher is dead."""
        if self.dead.is_set():
            raise Killed


@contextmanager
def killing(launchers: Callable[[], Sequence[KilledLauncher]]) -> Iterator[None]:
    """Each write and each call of these launchers is two moments."""
    commit, create_next = Session.commit, Session.create_next

    def of(one: object) -> KilledLauncher | None:
        return next((each for each in launchers() if each.owns(one)), None)

    def around(one: object, name: str, counted: bool, act: Callable[[], Any]) -> Any:
        launcher = of(one)
        if launcher is None:
            return act()
        launcher.check()
        if counted:
            launcher.meet(f"before {name}")
        answer = act()
        if counted:
            launcher.meet(f"after {name}")
        launcher.check()
        return answer

    def committing(session: Session, changes: Sequence[Change]) -> Any:
        counted = any(change.path.startswith(COUNTED) for change in changes)
        name = "; ".join(f"{type(each).__name__} {each.path}" for each in changes)
        return around(session, name, counted, lambda: commit(session, changes))

    def creating(session: Session, prefix: str, data: Any, ephemeral: bool = False) -> Any:
        name, counted = f"Create {prefix}", prefix.startswith(COUNTED)
        return around(session, name, counted, lambda: create_next(session, prefix, data, ephemeral))

    def quiet(ended: threading.ExceptHookArgs) -> None:
        if not isinstance(ended.exc_value, Killed):
            report(ended)

    report = threading.excepthook
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", quiet)
        patch.setattr(Session, "commit", committing)
        patch.setattr(Session, "create_next", creating)
        for name in CALLS:
            patch.setattr(MachineCalls, name, _calling(name, getattr(MachineCalls, name), around))
        yield


def _calling(name: str, call: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
    def calling(calls: MachineCalls, *arguments: Any) -> Any:
        return around(calls, f"{name} of the provider", True, lambda: call(calls, *arguments))

    return calling
