"""The journal: the author, time and reason of each change. An entry is written with its changes, and never changed."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from nodepool_ocb.model.ranges import Count, Moment, Number
from nodepool_ocb.model.records import Json, Record

#: The verb of an annealer's entry: a run asked for a file of the annealer's host that the settings do not allow.
REFUSE_FILE: Final = "refuse file"


class PoolVerb(StrEnum):
    """The verbs of a launcher's entries."""

    FULFIL_REQUEST = "fulfil request"
    FAIL_REQUEST = "fail request"
    EXPIRE_REQUEST = "expire request"  # it was deleted at the end of its time
    LAUNCH_NODE = "launch node"  # it became ready
    FAIL_NODE = "fail node"  # its launch failed
    DELETE_NODE = "delete node"
    DELETE_LEAK = "delete leak"  # a machine without a record


#: Verbs that daemons write; the command line has no command of these names.
DAEMON_VERBS: Final = frozenset({REFUSE_FILE, *PoolVerb})


class FieldChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A field that changed, and its values; one that is left out was not there."""

    field: str
    old: Json | msgspec.UnsetType = msgspec.UNSET
    new: Json | msgspec.UnsetType = msgspec.UNSET


class Effect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The effect on one record."""

    change: str  # create, change or delete
    kind: str  # of record, as people name it: node, noderole
    name: str
    state: str | None = None  # that it has since
    deployment: str | None = None  # of a node, or of the noderole; None in entries of before these were noted
    former: str | None = None  # the deployment that the change took it from
    fields: tuple[FieldChange, ...] = ()
    more: Count = 0  # fields that found no room


class Entry(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``journal/entries/<number>`` and, of launchers, ``journal/pool/<number>``: one transaction, at most 4 KiB.

    The numbers of each folder rise without a gap.
    """

    at: Moment
    login: str  # the author: a user of that host, or a daemon
    host: str  # where
    verb: str  # as it is typed: "node set"
    subjects: tuple[str, ...] = ()  # the names of all that it changed
    more: Count = 0  # subjects that found no room
    reason: str | None = None  # --reason
    changes: tuple[Effect, ...] = ()
    left_out: Count = 0  # changes that found no room
    part: Count = 1  # of a command that writes several transactions: which this is
    token: str | None = None  # the token of a client of the API


class WebhookFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why the receiver of the webhook has taken nothing for a while."""

    since: Moment  # no entry was taken
    at: Moment  # of the newest attempt that is noted
    host: str  # of the annealer that made it
    reason: str


class Webhook(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``journal/webhook``: how far the journal was delivered; empty before the first annealer with a webhook came."""

    delivered: Number  # of the last entry; -1 for none
    at: Moment
    pool_delivered: Number | None = (
        None  # of the last entry of launchers; None: no annealer that knows these has sent yet
    )
    failing: WebhookFailure | None = None
