"""The records of MACs and addresses, as decisions need them, and their release when a node is deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from nodepool_ocb.engine import holdings, structure
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.networks import MacOwner, Network, NetworkAddress
from nodepool_ocb.model.records import Change, Delete, Node, Record, Set
from nodepool_ocb.provisioning.addressing.found import FoundAddress, FoundHoldings, FoundOwner
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session

T = TypeVar("T", bound=Record)


def found(session: Session, world: World, macs: Iterable[str], nodes: Iterable[str]) -> FoundHoldings:
    """For a decision about these MACs, these nodes, and any address: one listing for each network, and few records.

    They are of the same moment as the world: each change of them raises the structure, and Stale is raised if that is newer.
    Raises Unavailable or Denied.
    """
    records = [view.record for fqdn in nodes if (view := world.nodes.get(fqdn)) is not None and view.record is not None]
    wanted = list(dict.fromkeys([*macs, *(mac for record in records for mac in record.macs)]))
    owners = dict(zip(wanted, _many(session, [paths.mac(mac) for mac in wanted]), strict=True))
    networks = sorted(world.of(Network))
    listed = session.children_many([paths.network_addresses(name) for name in networks]) if networks else []
    taken = {name: frozenset(each or ()) for name, each in zip(networks, listed, strict=True)}
    places = _unnamed(world, taken, records)
    read = zip(places, _many(session, [paths.network_address(*each) for each in places]), strict=True)
    made = FoundHoldings(
        owners={mac: FoundOwner(_record(MacOwner, z), z.version) for mac, z in owners.items() if z is not None},
        taken=taken,
        addresses={at: FoundAddress(_record(NetworkAddress, z), z.version, z.mtime) for at, z in read if z is not None},
    )
    newest = session.get(paths.STRUCTURE)
    if newest is None or newest.version != structure.stored(world).version:
        raise Stale("nodes changed meanwhile: read them again", paths.STRUCTURE)
    return made


def addresses(session: Session, network: str) -> Mapping[str, FoundAddress]:
    """All address records of a network; raises Unavailable or Denied."""
    names = sorted(session.children(paths.network_addresses(network)) or ())
    znodes = _many(session, [paths.network_address(network, name) for name in names])
    return {
        name: FoundAddress(_record(NetworkAddress, znode), znode.version, znode.mtime)
        for name, znode in zip(names, znodes, strict=True)
        if znode is not None
    }


def held(session: Session, node: Node) -> list[Znode]:
    """The znodes of the MACs and addresses that a node's record names, as far as they exist; raises Unavailable or Denied."""
    return [znode for znode in _many(session, holdings.places(node)) if znode is not None]


def released(fqdn: str, znode: Znode) -> Change | None:
    """The change that frees a MAC of this node, or puts an address of it in quarantine.

    None for a record that names another node; one that cannot be read is of the node that names it.
    """
    if znode.path.startswith(f"{paths.MACS}/"):
        owner = _record(MacOwner, znode)
        return Delete(znode.path, znode.version) if owner is None or owner.node == fqdn else None
    address = _record(NetworkAddress, znode)
    of_another = address is not None and address.node != fqdn
    return None if of_another else Set(znode.path, NetworkAddress(former=fqdn), znode.version)


def _unnamed(world: World, taken: Mapping[str, frozenset[str]], records: Iterable[Node]) -> list[tuple[str, str]]:
    """The addresses with a record that no node of the world names, and those that one of ``records`` names."""
    named: dict[str, set[str]] = {name: set() for name in taken}
    for view in world.nodes.values():
        for name, all_ in view.record.networks.items() if view.record is not None else ():
            named.setdefault(name, set()).update(all_)
    asked = {(name, each) for record in records for name, all_ in record.networks.items() for each in all_}
    return sorted(asked | {(name, each) for name, there in taken.items() for each in there - named[name]})


def _many(session: Session, wanted: list[str]) -> list[Znode | None]:
    return session.get_many(wanted) if wanted else []


def _record(kind: type[T], znode: Znode) -> T | None:
    try:
        return codec.decode(kind, znode)
    except Invalid:
        return None
