"""The names that completion offers: none where ZooKeeper does not answer in two seconds.

Each is a ``shell_complete`` of click: of the names that it reads, those that begin with what is typed. A name that ends
with ``=``, ``/`` or ``@`` goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from nodepool_ocb.model import paths
from nodepool_ocb.telemetry import visible

if TYPE_CHECKING:
    from nodepool_ocb.model.records import Node, Role
    from nodepool_ocb.store.client.session import Session

PATIENCE_SECONDS: Final = 2.0
MANY: Final = 200  # nodes: of more, roles are offered first

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
Given = dict[str, Any]  # what stands on the line already, by the names of parameters


def _names(read: Callable[[Session, Given, str], Iterable[str]]) -> Complete:
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        from nodepool_ocb.cli.kit import session

        try:
            with session.session(ctx, PATIENCE_SECONDS) as opened:
                found = set(read(opened, ctx.params, incomplete))
        except Exception:  # whatever it is: a shell in the middle of a line has no use for it
            return []
        return sorted(name for name in found if name.startswith(incomplete) and not visible.odd(name))

    return complete


def _children(path: str) -> Complete:
    return _names(lambda opened, _, __: opened.children(path) or [])


roles = _children(paths.ROLES)
nodes = _children(paths.NODES)
deployments = _children(paths.DEPLOYMENTS)
images = _children(paths.IMAGES)
releases = _children(paths.TASK_RELEASES)


@_names
def noderoles(opened: Session, _: Given, incomplete: str) -> Iterator[str]:
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


# -- what has numbers --


def _numbered(opened: Session, above: str, incomplete: str) -> Iterator[str]:
    """``DEPLOYMENT``, and ``DEPLOYMENT/ID`` of the one that is typed."""
    known = opened.children(above) or []
    yield from known
    first = incomplete.partition("/")[0]
    if first in known:
        yield from (f"{first}/{id}" for id in opened.children(f"{above}/{first}") or ())


rollouts = _names(lambda opened, _, incomplete: _numbered(opened, paths.ROLLOUTS, incomplete))
task_runs = _names(lambda opened, _, incomplete: _numbered(opened, paths.TASK_RUNS, incomplete))


@_names
def groups(opened: Session, given: Given, _: str) -> Iterator[str]:
    """The groups of the newest rollout of the deployment that is named before, or of each."""
    above = given.get("deployment")
    for deployment in [above] if above else opened.children(paths.ROLLOUTS) or ():
        newest = max(opened.children(paths.rollouts(deployment)) or [""])
        yield from opened.children(paths.rollout(deployment, newest, "groups")) or ()


@_names
def runs(opened: Session, given: Given, _: str) -> Iterable[str]:
    """The runs of the noderole that is named before."""
    return opened.children(paths.runs(*paths.split_noderole(given["name"]))) or []


@_names
def builds(opened: Session, given: Given, _: str) -> Iterable[str]:
    """The builds of the image that is named before."""
    return (each for each in opened.children(paths.builds(given["name"])) or () if each != "lock")


@_names
def daemons(opened: Session, _: Given, __: str) -> Iterator[str]:
    """The ids of all daemons."""
    for kind in paths.DAEMON_KINDS:
        yield from opened.children(paths.daemons(kind)) or ()


@_names
def providers(opened: Session, _: Given, __: str) -> Iterator[str]:
    """Those that a builder reaches."""
    from nodepool_ocb.store import daemons

    for daemon in daemons.read(opened, "builder").values():
        yield from daemon.providers if daemon else ()


@_names
def tasks(opened: Session, given: Given, incomplete: str) -> Iterable[str]:
    """The tasks of the list that ``--release`` or ``--deployment`` names; of names with commas the last goes on."""
    from nodepool_ocb.cli.tasks import lists

    owner = lists.owner(given.get("release"), given.get("deployment"))
    before = incomplete.rpartition(",")
    return [f"{before[0]}{before[1]}{each.id}" for each in lists.load(opened, owner).tasks.tasks]


# -- what nodes have --


def _nodes(opened: Session) -> Iterator[Node]:
    from nodepool_ocb.model.records import Node
    from nodepool_ocb.store.client import codec

    for znode in opened.get_many([paths.node(fqdn) for fqdn in opened.children(paths.NODES) or ()]):
        if znode is not None:
            yield codec.decode(Node, znode)


tags = _names(lambda opened, _, __: (tag for node in _nodes(opened) for tag in node.tags))
racks = _names(lambda opened, _, __: (node.rack for node in _nodes(opened) if node.rack))
labels = _names(lambda opened, _, __: (f"{k}={v}" for node in _nodes(opened) for k, v in node.labels.items()))


@_names
def selectors(opened: Session, _: Given, incomplete: str) -> list[str]:
    """What goes on in a selector: its criteria, and the values that there are."""
    from nodepool_ocb.cli.shells.selectors import offers, typed
    from nodepool_ocb.engine.selection.expression import Kind

    where = typed(incomplete)
    match where.kind:
        case Kind.TAG:
            values: Iterable[str] = (tag for node in _nodes(opened) for tag in node.tags)
        case Kind.LABEL:
            values = (f"{key}={value}" for node in _nodes(opened) for key, value in node.labels.items())
        case Kind.RACK:
            values = (node.rack for node in _nodes(opened) if node.rack)
        case Kind.ROLE:
            values = opened.children(paths.ROLES) or ()
        case Kind.DEPLOYMENT | Kind.BELOW:
            values = opened.children(paths.DEPLOYMENTS) or ()
        case _:
            values = opened.children(paths.NODES) or ()
    return offers(where, {where.kind: values} if where.kind else {})


def node_fields(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """``FIELD=`` of ``node set``."""
    from nodepool_ocb.operations.assignments import FIELDS

    known = [*(f"{field}=" for field in FIELDS), "labels.", "hints."]
    return [each for each in known if each.startswith(incomplete)]


def before(names: Complete, more: Complete) -> Complete:
    """For words of which the first are names: from the second on, or beside a selector, also what stands after these."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        if not (ctx.params.get("words") or ctx.params.get("selector")):
            return names(ctx, param, incomplete)
        found = more(ctx, param, incomplete)
        return [*found, *names(ctx, param, incomplete)] if incomplete else found

    return complete


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


places = _names(lambda opened, given, _: _declared(opened, _role_of(given)))
assignments = _names(lambda opened, given, _: (f"{each}=" for each in _declared(opened, _role_of(given))))


@_names
def settings(opened: Session, given: Given, _: str) -> Iterator[str]:
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
