"""The connections to all machines: at most ``pool`` stay open, none longer than ``idle_seconds`` without use.

All threads share one connection to a machine. A thread takes it and gives it back. A link in use is not closed by the
pool, except by ``close``.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import paramiko

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh.keys import NoKey, load_keys
from nodepool_ocb.jigs.ssh.link import Link, connect
from nodepool_ocb.model.records import Node

LONGEST_SWEEP_SECONDS: Final = 1.0  # between two looks at all links


class Pool:
    """Links by FQDN, the least recently used first."""

    def __init__(self, settings: SshSettings) -> None:
        self.settings = settings
        self._links: OrderedDict[str, Link] = OrderedDict()
        self._lock = threading.Lock()  # of everything here but ``_connecting``; never held while anything is waited for
        self._connecting: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._first_seen: dict[str, tuple[object, str]] = {}  # of first contacts, until the node's record has the key
        self._keys: list[paramiko.PKey] | None = None
        self._next_sweep = 0.0  # monotonic

    def take(self, fqdn: str, node: Node, anew: bool = False) -> Link | Unreachable:
        """The machine's connection, opened if there is none, or if ``anew`` is true; ``give_back`` it.

        Raises OwnFault if this host fails.
        """
        with self._lock:
            connecting = self._connecting[fqdn]
        with connecting:
            link = self._open(fqdn, node)
            if link is not None and not anew:
                return link
            if link is not None:
                self.discard(link)
                self.give_back(link)
            settings, keys = self._access()
            answer = connect(fqdn, node, settings, keys, self._pinned(fqdn, node))
            if isinstance(answer, Link):
                self._add(answer, node)
            return answer

    def give_back(self, link: Link) -> None:
        """The link is not used any more; a broken one is closed, and so are those that are idle or too many."""
        with self._lock:
            link.users -= 1
            link.used = time.monotonic()
            if self._links.get(link.fqdn) is link:
                self._links.move_to_end(link.fqdn)
            surplus = self._surplus()
            if link.users == 0 and self._links.get(link.fqdn) is not link:
                surplus.append(link)
        for old in surplus:
            old.close()

    def discard(self, link: Link) -> None:
        """Give this link to no caller any more: it is broken, or its machine has changed."""
        with self._lock:
            if self._links.get(link.fqdn) is link:
                del self._links[link.fqdn]

    @property
    def has_keys(self) -> bool:
        """Whether private keys have been read."""
        return self._keys is not None

    def configure(self, settings: SshSettings) -> None:
        """Use these settings and the present key files for new connections. If they differ, open connections are closed
        after their use.
        """
        try:
            keys: list[paramiko.PKey] | None = load_keys(settings)
        except NoKey:
            keys = None  # the next connection raises it again
        with self._lock:
            same = settings == self.settings and _public(keys) == _public(self._keys)
            self.settings, self._keys = settings, keys
            links = [] if same else list(self._links.values())
            self._links = self._links if same else OrderedDict()
            idle = [link for link in links if link.users == 0]
        for link in idle:
            link.close()

    def _access(self) -> tuple[SshSettings, list[paramiko.PKey]]:
        """The settings with their keys; raises NoKey."""
        with self._lock:
            settings, keys = self.settings, self._keys
        if keys is None:
            keys = load_keys(settings)
            with self._lock:
                if self.settings is settings:  # else they have been changed meanwhile, and these keys are old
                    self._keys = keys
        return settings, keys

    def forget_keys(self) -> None:
        """Read the private keys again for the next connection: a person may have corrected them."""
        with self._lock:
            self._keys = None

    def close(self) -> None:
        """Close every connection, in use or not."""
        with self._lock:
            links = list(self._links.values())
            self._links.clear()
        for link in links:
            link.close()

    def __len__(self) -> int:
        return len(self._links)

    def _pinned(self, fqdn: str, node: Node) -> tuple[str, ...]:
        """The expected host keys of a node. A key seen at first contact is forgotten when the record has keys, or when
        the record is another.
        """
        with self._lock:
            life, seen = self._first_seen.get(fqdn, (None, ""))
            if node.host_keys or life != _life(node):
                self._first_seen.pop(fqdn, None)
                return node.host_keys
            return (seen,)

    def _open(self, fqdn: str, node: Node) -> Link | None:
        with self._lock:
            link = self._links.get(fqdn)
            if link is None:
                return None
            if link.alive and link.host_key in (node.host_keys or (link.host_key,)) and link.login == _login(node):
                link.users += 1
                link.fresh = False
                self._links.move_to_end(fqdn)
                return link
            del self._links[fqdn]
        if link.users == 0:
            link.close()
        return None

    def _add(self, link: Link, node: Node) -> None:
        with self._lock:
            link.users = 1
            self._links[link.fqdn] = link
            if not node.host_keys:
                self._first_seen[link.fqdn] = _life(node), link.host_key
            surplus = self._surplus()
        for old in surplus:
            old.close()

    def _surplus(self) -> list[Link]:
        """Remove and give the links that are not in use and are beyond the size of the pool, idle for too long, or dead.

        All links are looked at only once in a while: a step on one machine must not cost a look at each other machine.
        """
        now, settings = time.monotonic(), self.settings
        surplus: list[Link] = []
        sweep = now >= self._next_sweep
        if sweep:
            self._next_sweep = now + min(LONGEST_SWEEP_SECONDS, settings.idle_seconds / 10)
        elif len(self._links) <= settings.pool:
            return surplus
        for fqdn, link in list(self._links.items()):
            too_many = len(self._links) > settings.pool
            if not (too_many or sweep):
                break
            if link.users == 0 and (too_many or now - link.used > settings.idle_seconds or not link.alive):
                surplus.append(self._links.pop(fqdn))
        return surplus


def _public(keys: Sequence[paramiko.PKey] | None) -> list[str]:
    return [key.get_base64() for key in keys or ()]


def _life(node: Node) -> tuple[object, ...]:
    """The fields that differ if a record is of another machine of the same name, or of one at another place."""
    return node.addresses, node.user, node.epoch_base


def _login(node: Node) -> tuple[str, tuple[str, ...]]:
    return node.user, node.addresses


@lru_cache(maxsize=4)
def pool(settings: SshSettings) -> Pool:
    """The pool of this process for these settings: jigs and probes share it."""
    return Pool(settings)
