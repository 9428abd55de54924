"""The inputs and results of a jig: blobs read in one request, merged, the wall written back.

The request may be sent behind the claim before that is answered (``ReadAhead``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import attributes, claim, inputs
from nodepool_ocb.engine.world import Vertex
from nodepool_ocb.errors import Denied, Invalid, Spoiled, Stale, Unavailable
from nodepool_ocb.jigs.jig import Succeeded
from nodepool_ocb.model import paths, secrecy
from nodepool_ocb.model.records import Change, Create, Former, Given, Json, Set
from nodepool_ocb.secrecy.opening import Opened, Secrets
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session, Znode

Blobs = Mapping[str, Znode | None]

AHEAD_SECONDS: Final = 1.0  # that attributes may be read before their run begins

NO_ROOM: Final = "there was no room to keep it"
NOTHING_KEPT: Final = "nothing of it was kept"
TAKEN_OVER: Final = "its run was taken over, and had begun with other inputs than those of today"


class JigInputs(msgspec.Struct, frozen=True):
    """The inputs of a jig: the attributes with opened secrets, and their form for comparisons."""

    opened: Opened
    judged: inputs.Judged
    places: tuple[str, ...] = ()  # of its role's secrets
    base: Mapping[
        str, Json
    ] = {}  # the attributes without the noderole's own wall: the results of the run are compared with these


class Results(msgspec.Struct, frozen=True):
    """The changes of a successful run below its noderole, and the digest of its inputs for the record itself."""

    wall: Sequence[Change] = ()
    given: Sequence[Create | Set] = ()
    number: int = 0
    former: Former | None = None  # for the record of the run
    instant: bool = False  # there was nothing to run, and nothing was given
    published: Sequence[Change] = ()  # the records of the documents that the run published

    @property
    def changes(self) -> list[Change]:
        return [*self.wall, *self.given, *self.published]

    @property
    def smaller(self) -> Results:
        """The results without their optional parts, for lack of room: of the inputs only the digest is kept."""
        former = self.former and Former(given=self.former.given, reason=NO_ROOM)
        return replace(self, given=[_brief(change) for change in self.given], former=former)


def _brief(change: Create | Set) -> Create | Set:
    jig = change.data.jig if isinstance(change.data, Given) else ""
    return replace(change, data=Given(jig=jig, reason=NO_ROOM))


class ReadAhead:
    """A read of attributes that was sent right behind a claim, in the same flight.

    Its answer has the records that the transaction of the claim wrote, if both went over one connection. ``connections``: the
    session's count of connections before that transaction was sent.
    """

    def __init__(self, session: Session, wanted: Sequence[str], connections: int) -> None:
        self._session, self._wanted, self._connections = session, wanted, connections
        self._sent = time.monotonic()
        self._get = session.send_read(wanted)

    def found(self, wanted: Collection[str]) -> Blobs | None:
        """The blobs; None if they must be read anew: some were not asked for, it was long ago, or the connection broke."""
        if time.monotonic() - self._sent > AHEAD_SECONDS or not set(wanted).issubset(self._wanted):
            return None
        try:
            found = dict(zip(self._wanted, self._get(), strict=True))
        except (Unavailable, Denied, Stale):
            return None
        return found if self._session.connections == self._connections else None


def wanted(sources: inputs.InputSources) -> list[str]:
    """The paths of the blobs of all relevant noderoles, and of the inputs of the newest run."""
    return [*sources.blobs, paths.given(sources.own.role, sources.own.fqdn)]


def read(session: Session, sources: inputs.InputSources, ahead: ReadAhead | None = None) -> Blobs:
    """These blobs, in one read; ``ahead``: that may have them already."""
    paths_ = wanted(sources)
    found = ahead.found(paths_) if ahead is not None else None
    return dict(zip(paths_, session.get_many(paths_), strict=True)) if found is None else found


def decoded(sources: inputs.InputSources, read: Blobs) -> inputs.Blobs:
    """The attributes that were read; raises Spoiled."""
    return {path: codec.attributes(read[path]) for path in sources.blobs if read[path] is not None}


def changed_secrets(grant: claim.Grant, read: Blobs, judged: inputs.Judged) -> list[str]:
    """The places where the newest run was given another secret than a run would be now, or may have been.

    The output of a check may have the secret of then, which is the live one, and which nothing masks now.
    """
    if judged.number == grant.record.given:
        return []
    now = inputs.kept(judged.given) or Given(jig=judged.given.jig)
    then = _decoded(read[paths.given(grant.vertex.role, grant.fqdn)])
    if then is None or then.reason or now.reason:  # its earlier input is not known
        return ["secrets"] if secrecy.holds(judged.given.attributes) or secrecy.holds(judged.given.beside) else []
    differing = inputs.between(then, now)
    return [each.what for each in differing if secrecy.holds(each.before) or secrecy.holds(each.now)]


def _decoded(znode: Znode | None) -> Given | None:
    try:
        return codec.decode(Given, znode) if znode is not None else None
    except Invalid:
        return None


def sent(sources: inputs.InputSources, blobs: inputs.Blobs, opened: Opened) -> JigInputs:
    """``opened``: the attributes of all these sources, as they are merged, with their secrets."""
    own = paths.wall(sources.own.role, sources.own.fqdn)
    base: Mapping[str, Json] = opened.attributes
    if blobs.get(own):
        others = {path: values for path, values in blobs.items() if path != own}
        base = opened.within(inputs.visible(inputs.layers(sources, others)))
    return JigInputs(opened, inputs.judged(sources, blobs), sources.secret, base)


def results(grant: claim.Grant, read: Blobs, sent: JigInputs, secrets: Secrets, outcome: Succeeded) -> Results:
    """The changes of a successful run, beside its record; raises Sealed if a returned value cannot be kept."""
    judged = sent.judged
    if not outcome.ordered:
        judged = inputs.Judged(inputs.UNKNOWN, Given(jig=judged.given.jig, reason=TAKEN_OVER))
    another = judged.number != grant.record.given
    given = given_changes(grant.vertex, read, judged) if another else []
    former = former_of(grant.vertex, grant.record.given, read, judged) if another and grant.record.given else None
    returned = outcome.attributes if outcome.written is None else outcome.written
    added = attributes.wall(sent.base, returned)
    return Results(
        wall_changes(grant.vertex, read, partial(_sealed, secrets, sent, added)), given, judged.number, former
    )


def _sealed(
    secrets: Secrets, sent: JigInputs, added: Mapping[str, Json], before: Mapping[str, Json]
) -> dict[str, Json]:
    return secrets.sealed(added, before, sent.places, sent.opened)


def given_changes(vertex: Vertex, read: Blobs, judged: inputs.Judged) -> list[Create | Set]:
    """The recorded inputs of a run, in place of those of the run before."""
    path = paths.given(vertex.role, vertex.node.name)
    znode, keep = read[path], inputs.kept(judged.given)
    if znode is None:
        return [Create(path, keep)] if keep is not None else []
    return [Set(path, keep or Given(jig=judged.given.jig), znode.version)]


def former_of(vertex: Vertex, number: int, read: Blobs, judged: inputs.Judged) -> Former:
    """The difference to the run before, if that had other inputs; ``number``: the digest of those."""
    znode = read[paths.given(vertex.role, vertex.node.name)]
    jig = judged.given.jig
    if znode is not None:
        try:
            then = codec.decode(Given, znode)
        except Invalid as wrong:
            return Former(given=number, reason=str(wrong))
    elif number in (inputs.of_nothing(jig).number, inputs.of_instant(jig)):
        then = Given(jig=jig)
    else:
        return Former(given=number, reason=NOTHING_KEPT)
    return inputs.former(inputs.kept(judged.given) or Given(jig=jig), then, number)


def wall_changes(
    vertex: Vertex, read: Blobs, wall_over: Callable[[Mapping[str, Json]], dict[str, Json]]
) -> list[Change]:
    """The wall is replaced; nothing where it stays the same. ``wall_over``: the new wall, where the old one is this."""
    path = paths.wall(vertex.role, vertex.node.name)
    znode = read[path]
    if znode is None:
        return [Create(path, wall)] if (wall := wall_over({})) else []
    try:
        before = codec.attributes(znode)
    except Spoiled:  # spoiled while the jig ran: it is written over
        return [Set(path, wall_over({}), znode.version)]
    wall = wall_over(before)
    return [Set(path, wall, znode.version)] if attributes.differ(wall, before) else []
