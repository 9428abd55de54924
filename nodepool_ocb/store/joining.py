"""The records of machines that wait, of rules of adoption, and of the nodes that own MACs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.joining import AdoptionRule, MachineRegistration
from nodepool_ocb.model.networks import MacOwner
from nodepool_ocb.model.records import Record
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session

T = TypeVar("T", bound=Record)


def registrations(session: Session) -> Mapping[str, Stored[MachineRegistration]]:
    """Those that can be read, by MAC. Raises Unavailable or Denied."""
    return _all(session, paths.REGISTRATIONS, MachineRegistration)


def registration(session: Session, mac: str) -> Stored[MachineRegistration] | None:
    """None without one, and for a record that cannot be read. Raises Unavailable or Denied."""
    znode = session.get(paths.registration(mac))
    return None if znode is None else _stored(MachineRegistration, znode)


def rules(session: Session) -> Mapping[str, Stored[AdoptionRule]]:
    """Those that can be read, by name. Raises Unavailable or Denied."""
    return _all(session, paths.ADOPTION, AdoptionRule)


def owners(session: Session, macs: Iterable[str]) -> Mapping[str, str]:
    """The node of each MAC that has one. Raises Unavailable or Denied."""
    wanted = list(macs)
    found: dict[str, str] = {}
    for mac, znode in zip(wanted, session.get_many([paths.mac(mac) for mac in wanted]), strict=True):
        stored = None if znode is None else _stored(MacOwner, znode)
        if stored is not None:
            found[mac] = stored.record.node
    return found


def _all(session: Session, folder: str, kind: type[T]) -> Mapping[str, Stored[T]]:
    names = sorted(session.children(folder) or ())
    found: dict[str, Stored[T]] = {}
    for name, znode in zip(
        names, session.get_many([f"{folder}/{name}" for name in names]) if names else (), strict=True
    ):
        stored = None if znode is None else _stored(kind, znode)
        if stored is not None:
            found[name] = stored
    return found


def _stored(kind: type[T], znode: Znode) -> Stored[T] | None:
    try:
        return Stored(codec.decode(kind, znode), znode.version, znode.mzxid)
    except Invalid:
        return None
