"""The names that exist, for completion: of records, of fields of nodes, of attributes, and of parts of selectors.

A name that ends with ``=``, ``/`` or ``@`` goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from nodepool_ocb.model import paths
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.model.pool import PoolComponent
    from nodepool_ocb.model.records import Node, Role
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.store.client.session import Session

MANY: Final = 200  # nodes: of more, roles are offered first

Given = Mapping[str, Any]  # the words of the line already typed, by the names of parameters
Read = Callable[["Session", Given, str], Iterable[str]]


class ReadNames(Lookup[frozenset[str]], frozen=True):
    """The names of one of ``KINDS`` that may follow; raises the errors of its reads, and those for words that are no names."""

    records = ""

    kind: str
    given: Given
    incomplete: str

    def answer(self, reader: Reader) -> frozenset[str]:
        return frozenset(KINDS[self.kind](reader.session, self.given, self.incomplete))


def _children(path: str) -> Read:
    return lambda opened, _, __: opened.children(path) or []


def _noderoles(opened: Session, _: Given, incomplete: str) -> Iterator[str]:
    """``ROLE@FQDN``; of very many nodes ``ROLE@`` first."""
    role, at, start = incomplete.partition("@")
    fqdns = opened.children(paths.NODES) or []
    if at:
        near = [fqdn for fqdn in fqdns if fqdn.startswith(start)]
        there = opened.get_many([paths.noderole(role, fqdn) for fqdn in near])
        yield from (paths.noderole_name(role, fqdn) for fqdn, znode in zip(near, there, strict=True) if znode)
    elif len(fqdns) > MANY:
        yield from (f"{each}@" for each in opened.children(paths.ROLES) or ())
    else:
        bound = opened.children_many([paths.noderoles(fqdn) for fqdn in fqdns])
        for fqdn, found in zip(fqdns, bound, strict=True):
            yield from (paths.noderole_name(each, fqdn) for each in found or ())


# -- numbered records --


def _numbered(opened: Session, above: str, incomplete: str) -> Iterator[str]:
    """``DEPLOYMENT``, and ``DEPLOYMENT/ID`` of the one that is typed."""
    known = opened.children(above) or []
    yield from known
    first = incomplete.partition("/")[0]
    if first in known:
        yield from (f"{first}/{id}" for id in opened.children(f"{above}/{first}") or ())


def _groups(opened: Session, given: Given, _: str) -> Iterator[str]:
    """The groups of the newest rollout of the deployment that is named before, or of each."""
    above = given.get("deployment")
    for deployment in [above] if above else opened.children(paths.ROLLOUTS) or ():
        newest = max(opened.children(paths.rollouts(deployment)) or [""])
        yield from opened.children(paths.rollout(deployment, newest, "groups")) or ()


def _runs(opened: Session, given: Given, _: str) -> Iterable[str]:
    """The runs of the noderole that is named before."""
    return opened.children(paths.runs(*paths.split_noderole(given["name"]))) or []


def _builds(opened: Session, given: Given, _: str) -> Iterable[str]:
    """The builds of the image that is named before."""
    return (each for each in opened.children(paths.builds(given["name"])) or () if each != "lock")


def _daemons(opened: Session, _: Given, __: str) -> Iterator[str]:
    """The ids of all daemons."""
    for kind in paths.DAEMON_KINDS:
        yield from opened.children(paths.daemons(kind)) or ()


def _providers(opened: Session, _: Given, __: str) -> Iterator[str]:
    """Those that a builder reaches."""
    from nodepool_ocb.store import daemons

    for daemon in daemons.read(opened, "builder").values():
        yield from daemon.providers if daemon else ()


def _components(opened: Session) -> Iterator[PoolComponent]:
    """The pools that launchers have registered."""
    from nodepool_ocb.model.pool import PoolComponent
    from nodepool_ocb.store.client import codec

    folder = paths.components("pool")
    for znode in opened.get_many([f"{folder}/{name}" for name in opened.children(folder) or ()]):
        if znode is not None:
            yield codec.decode(PoolComponent, znode)


def _pools(opened: Session, _: Given, __: str) -> Iterator[str]:
    return (f"{each.provider_name}/{each.name}" for each in _components(opened))


def _pool_labels(opened: Session, _: Given, __: str) -> Iterator[str]:
    """Those that a running launcher offers."""
    return (label for each in _components(opened) for label in each.supported_labels)


def _pool_providers(opened: Session, _: Given, __: str) -> Iterator[str]:
    return (each.provider_name for each in _components(opened) if each.provider_name)


# -- fields of nodes --


def _nodes(opened: Session) -> Iterator[Node]:
    from nodepool_ocb.model.records import Node
    from nodepool_ocb.store.client import codec

    for znode in opened.get_many([paths.node(fqdn) for fqdn in opened.children(paths.NODES) or ()]):
        if znode is not None:
            yield codec.decode(Node, znode)


def _selectors(opened: Session, _: Given, incomplete: str) -> list[str]:
    """The continuations of a selector: criteria, and the values that exist."""
    from nodepool_ocb.engine.selection.expression import CriterionKind
    from nodepool_ocb.operations.completion.selectors import offers, typed

    where = typed(incomplete)
    match where.kind:
        case CriterionKind.TAG:
            values: Iterable[str] = (tag for node in _nodes(opened) for tag in node.tags)
        case CriterionKind.LABEL:
            values = (f"{key}={value}" for node in _nodes(opened) for key, value in node.labels.items())
        case CriterionKind.RACK:
            values = (node.rack for node in _nodes(opened) if node.rack)
        case CriterionKind.ROLE:
            values = opened.children(paths.ROLES) or ()
        case CriterionKind.DEPLOYMENT | CriterionKind.BELOW:
            values = opened.children(paths.DEPLOYMENTS) or ()
        case _:
            values = opened.children(paths.NODES) or ()
    return offers(where, {where.kind: values} if where.kind else {})


# -- attributes --


def _noderole(given: Given) -> str:
    """The one that is named, or the first of several."""
    return given.get("name") or next(iter(given.get("names") or given.get("words") or ()), "")


def _role_of(given: Given) -> str:
    """Of the noderole, or the first of several, or the role that is named before."""
    name = _noderole(given)
    return name.partition("@")[0] if "@" in name else str(given.get("role") or "")


def _declared(opened: Session, role: str) -> Iterator[str]:
    """The names and the places of the attributes that a role has."""
    from nodepool_ocb.engine.inputs.templates import provided

    for each in provided(_Roles(opened), role):
        for attrib in each.attribs:
            yield from (attrib.name, attrib.map)


class _Roles(dict[str, "Role"]):
    """Roles that are read when they are asked for."""

    def __init__(self, opened: Session) -> None:
        self._opened = opened

    def __missing__(self, name: str) -> Role:
        from nodepool_ocb.model.records import Role
        from nodepool_ocb.store.client import codec

        znode = self._opened.get(paths.role(name))
        if znode is None:
            raise KeyError(name)
        self[name] = codec.decode(Role, znode)
        return self[name]

    def __contains__(self, name: object) -> bool:
        return self._opened.get(paths.role(str(name))) is not None


def _bootenvs(opened: Session, _: Given, __: str) -> Iterator[str]:
    """The shipped ones, and those of records."""
    from nodepool_ocb.model.boot import SHIPPED

    yield from SHIPPED
    yield from (each for each in opened.children(paths.BOOTENVS) or () if each not in SHIPPED)


def _settings(opened: Session, given: Given, _: str) -> Iterator[str]:
    """The places that the user of a noderole, or of a deployment's role, has set."""
    from nodepool_ocb.engine import attributes
    from nodepool_ocb.model.records import DeploymentRole
    from nodepool_ocb.store.client import codec

    name = _noderole(given)
    if "@" in name:
        blob = codec.attributes(opened.get(paths.user(*paths.split_noderole(name))))
    else:
        znode = opened.get(paths.deployment_role(name, given["role"]))
        blob = dict(codec.decode(DeploymentRole, znode).user) if znode else {}
    yield from (place for place, _ in attributes.leaves(blob))


KINDS: Final[Mapping[str, Read]] = {
    "roles": _children(paths.ROLES),
    "nodes": _children(paths.NODES),
    "deployments": _children(paths.DEPLOYMENTS),
    "images": _children(paths.IMAGES),
    "releases": _children(paths.TASK_RELEASES),
    "rollouts": lambda opened, _, incomplete: _numbered(opened, paths.ROLLOUTS, incomplete),
    "task_runs": lambda opened, _, incomplete: _numbered(opened, paths.TASK_RUNS, incomplete),
    "tags": lambda opened, _, __: (tag for node in _nodes(opened) for tag in node.tags),
    "racks": lambda opened, _, __: (node.rack for node in _nodes(opened) if node.rack),
    "labels": lambda opened, _, __: (f"{k}={v}" for node in _nodes(opened) for k, v in node.labels.items()),
    "places": lambda opened, given, _: _declared(opened, _role_of(given)),
    "assignments": lambda opened, given, _: (f"{each}=" for each in _declared(opened, _role_of(given))),
    "noderoles": _noderoles,
    "groups": _groups,
    "runs": _runs,
    "builds": _builds,
    "daemons": _daemons,
    "providers": _providers,
    "selectors": _selectors,
    "settings": _settings,
    "requests": _children(paths.REQUESTS),
    "tokens": _children(paths.TOKENS),
    "networks": _children(paths.NETWORKS),
    "bootenvs": _bootenvs,
    "registrations": _children(paths.REGISTRATIONS),
    "adoption_rules": _children(paths.ADOPTION),
    "leases": _children(paths.POOL_NODES),
    "pools": _pools,
    "pool_labels": _pool_labels,
    "pool_providers": _pool_providers,
}
