"""Entries of the journal as they are shown, and the choice of entries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import islice

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.journal import DAEMON_VERBS, Effect, Entry, FieldChange
from nodepool_ocb.views import differences
from nodepool_ocb.views.differences import OF_ATTRIBUTES, FieldRow
from nodepool_ocb.views.view import View

LISTED = 3  # subjects in a line
OF_IMAGES = ("build request", "pause")  # kinds of records without a name of their own: they have that of their image
PERHAPS = "(perhaps)"


def place(world: World, name: str) -> str | None:
    """The deployment of an object by its name, as entries name it; None for one that does not exist."""
    name = name.removesuffix(" (user)")
    _, in_, deployment = name.partition(" in ")
    if in_ or "/" in name:
        return deployment or name.partition("/")[0]
    if (vertex := world.vertex(name)) is not None:
        return vertex.record.deployment
    if (view := world.nodes.get(name)) is not None and view.record is not None:
        return view.record.deployment
    return name if name in world.deployments else None


class EntryRow(View, frozen=True, kw_only=True):
    """An entry, with its number."""

    number: int
    record: Entry
    pool: bool | msgspec.UnsetType = msgspec.UNSET  # true: an entry of a launcher; these have numbers of their own
    perhaps: bool | msgspec.UnsetType = msgspec.UNSET  # true: it does not name all that it changed, and may be about it


class EntryLine(View, frozen=True, kw_only=True):
    """An entry for the eye."""

    when: str
    who: str
    verb: str
    what: str
    reason: str | None


class EntryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The entries to show. A field that is None does not limit the choice."""

    names: tuple[str, ...] | None = None
    meant: frozenset[str] | None = None  # by a selector: nodes and noderoles, each for itself
    beside: frozenset[str] = frozenset()  # subjects that are about one of the names in another way
    since: float | None = None
    by: str | None = None
    verb: str | None = None

    def has(self, entry: Entry) -> bool:
        """Whether an entry is one of them.

        >>> bind = Entry(at=5.0, login="anna", host="h", verb="node bind", subjects=("ntp@n1.x",))
        >>> [EntryFilter(names=("n1.x",)).has(bind), EntryFilter(verb="node").has(bind), EntryFilter(verb="nod").has(bind)]
        [True, True, False]
        """
        return (
            (self.since is None or entry.at >= self.since)
            and self.by in (None, entry.login, f"{entry.login}@{entry.host}")
            and (self.verb is None or f"{entry.verb} ".startswith(f"{self.verb} "))
            and any(map(self.about, entry.subjects or ("",)))
        )

    def about(self, subject: str) -> bool:
        """Whether it has one of the names, and is meant.

        >>> [EntryFilter(meant=frozenset({"ntp@n1.x"})).about(each) for each in ("ntp@n1.x", "ntp@n1.x (user)", "n1.x")]
        [True, True, False]
        >>> beside = EntryFilter(names=("ntp@n1.x",), beside=frozenset({"lab", "ntp in lab"}))
        >>> [beside.about(each) for each in ("ntp in lab", "lab/01", "a in lab")]
        [True, True, False]
        """
        return (self.names is None or about(subject, self.names) or _beside(subject, self.beside)) and (
            self.meant is None or subject.removesuffix(" (user)") in self.meant
        )

    def may_have(self, entry: Entry) -> bool:
        """Whether it has no room for all its subjects, and may be one of them for those that it does not name.

        >>> commit = Entry(at=5.0, login="anna", host="h", verb="node commit", subjects=("ntp@n1.x",), more=9)
        >>> [EntryFilter(names=(name,)).may_have(commit) for name in ("n1.x", "n2.x")], EntryFilter(verb="image").may_have(commit)
        ([False, True], False)
        >>> EntryFilter(meant=frozenset({"ntp@n2.x"})).may_have(commit)
        True
        """
        return (
            entry.more > 0 and not self.has(entry) and msgspec.structs.replace(self, names=None, meant=None).has(entry)
        )


def about(subject: str, names: Collection[str]) -> bool:
    """Whether it has one of the names, or is on the node, in the deployment or of the noderole of that name.

    >>> [about(each, ["n1.x"]) for each in ("n1.x", "ntp@n1.x", "ntp@n1.x (user)", "n1.x.y")]
    [True, True, True, False]
    >>> about("lab/0000000001", ["lab"]), about("ntp in lab", ["lab"]), about("ntp@n1.x (user)", ["ntp@n1.x"])
    (True, True, True)
    """
    whole = subject.removesuffix(" (user)")
    parts = {subject, whole, whole.rpartition("@")[2], whole.partition("/")[0], whole.rpartition(" in ")[2]}
    return not parts.isdisjoint(names)


def concealed(entry: Entry, secret: Callable[[str], bool]) -> Entry:
    """The entry without the values of attributes for which ``secret`` is true."""
    return replace(entry, changes=tuple(_concealed(each, secret) for each in entry.changes))


def _concealed(effect: Effect, secret: Callable[[str], bool]) -> Effect:
    if effect.kind not in OF_ATTRIBUTES or not any(secret(each.field) for each in effect.fields):
        return effect
    rows = (FieldRow(field=each.field, old=each.old, new=each.new) for each in effect.fields)
    hidden = (differences.concealed(each) if secret(each.field) else each for each in rows)
    return replace(effect, fields=tuple(FieldChange(field=each.field, old=each.old, new=each.new) for each in hidden))


def _beside(subject: str, beside: Collection[str]) -> bool:
    """Whether it is one of these subjects, or a rollout of one."""
    return subject in beside or ("/" in subject and subject.partition("/")[0] in beside)


def line(row: EntryRow, when: str) -> EntryLine:
    """One line: the subjects; if they are few, the effect on each."""
    entry = row.record
    what = f"{_what(entry)} {PERHAPS}" if row.perhaps is True else _what(entry)
    return EntryLine(when=when, who=f"{entry.login}@{entry.host}", verb=entry.verb, what=what, reason=entry.reason)


def _what(entry: Entry) -> str:
    if entry.verb in DAEMON_VERBS and entry.changes:
        return _of_daemon(entry.changes[0])
    if len(entry.changes) == 1 and not entry.left_out:
        return _effect(entry.changes[0])
    others = len(entry.subjects) - LISTED + entry.more
    listed = ", ".join(entry.subjects[:LISTED])
    return f"{listed} and {others} more" if others > 0 else listed


def _effect(effect: Effect) -> str:
    """The effect on one subject, for a line.

    >>> _effect(Effect(change="delete", kind="node", name="n1.x")), _effect(Effect(change="change", kind="node", name="n1.x"))
    ('n1.x deleted', 'n1.x')
    >>> _effect(Effect(change="delete", kind="pause", name="jammy"))
    'pause of jammy deleted'
    """
    words = [FieldRow(field=each.field, old=each.old, new=each.new).words for each in effect.fields]
    fields = "; ".join([*words, f"{effect.more} more"] if effect.more else words)
    done = {"create": "created", "delete": "deleted"}.get(effect.change, "")
    name = f"{effect.kind} of {effect.name}" if effect.kind in OF_IMAGES else effect.name
    return " ".join(each for each in (name, done, f"({fields})" if fields else "") if each)


def _of_daemon(effect: Effect) -> str:
    """The object of a daemon's entry, and its fields, for a line.

    >>> _of_daemon(Effect(change="change", kind="node", name="n1.x", fields=(FieldChange(field="label", new="small"),)))
    'n1.x (label: small)'
    """
    words = "; ".join(FieldRow(field=each.field, new=each.new).made for each in effect.fields)
    return f"{effect.name} ({words})" if words else effect.name


def newest(rows: Iterable[EntryRow], wanted: EntryFilter, limit: int | None) -> list[EntryRow]:
    """The wanted rows, and those that may be wanted, from rows that come newest first: at most ``limit``, the newest last."""
    found = (row for each in rows if (row := chosen(each, wanted)) is not None)
    return list(islice(found, limit))[::-1]


def chosen(row: EntryRow, wanted: EntryFilter) -> EntryRow | None:
    """The row if it is wanted, marked where it only may be; None where it is not."""
    if wanted.has(row.record):
        return row
    return msgspec.structs.replace(row, perhaps=True) if wanted.may_have(row.record) else None
