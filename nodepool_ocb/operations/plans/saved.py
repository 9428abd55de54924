"""A saved plan: an operation, the changes that its dry run found, and the versions of the records that these rest on. Pure.

The digest of a plan shows a slip of an editor; it proves no author. A plan does no more than it shows: the operation is decided
again before any write, and must find the same changes of the same records.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from nodepool_ocb.errors import Conflict, Invalid, NoCluster
from nodepool_ocb.model import limits
from nodepool_ocb.model.records import Append, Change, Check, Claim, Create, Delete, Fence, Gate, Json, Raise, Structure
from nodepool_ocb.model.secrecy import hidden
from nodepool_ocb.views import differences
from nodepool_ocb.views.changes import ChangeRow

VALID_SECONDS: Final = 86400.0
DIGEST_LETTERS: Final = 24
SHOWN: Final = 100  # characters of a wrong value in a refusal
ABSENT: Final = 0  # the version of a record that is to be created
#: The last parts of fields that are moments.
MOMENTS: Final = frozenset({"since", "until", "at", "not_before"})
MOVED: Final = -1  # that of a record which was written during the dry run
AHEAD_SECONDS: Final = 300.0  # of ZooKeeper's clock, at which a plan may be made: another server was the leader
LONGEST_NAME: Final = 255  # of a login or a host
AGAIN: Final = "save the plan again with --dry-run --save"
LONGEST_PATH: Final = 1024
_RECORD: Final = re.compile(r"/(?:ocb|nodepool)(?:/(?!\.\.?(?:/|\Z))[^/]+)+")

Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class PlanBasis(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of a dry run; ``at``: ZooKeeper's time, in seconds since the epoch."""

    at: float
    rows: tuple[ChangeRow, ...]
    records: Mapping[str, int]  # path → zxid of the newest change of the record; ABSENT
    answers: tuple[Json, ...] = ()  # of an operation whose dry run names no record

    @property
    def digest(self) -> str:
        """The version of the plan: it changes with each record, and with each change of a row, except moments."""
        return _digest([sorted(self.records.items()), [calm(row) for row in self.rows], self.answers])


class SavedPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan, as its file has it."""

    plan: Literal[1] = 1  # the version of this form
    cluster: str  # its id
    operation: str  # its name in the table of operations
    fields: dict[str, Any]  # of the operation, as JSON
    reason: str | None = None
    by: str  # the login of the planner
    host: str  # from which the call of the planner came
    at: Time
    expires: Time
    rows: tuple[ChangeRow, ...]
    answers: tuple[Any, ...] = ()  # of an operation whose dry run names no record
    records: dict[str, int]  # path → zxid of the newest change of the record; 0: it is to be created
    digest: str = ""

    @property
    def basis(self) -> PlanBasis:
        """The findings of its dry run."""
        return PlanBasis(at=self.at.timestamp(), rows=self.rows, records=self.records, answers=self.answers)

    @property
    def author(self) -> str:
        """The planner, for sentences and for the journal."""
        return f"{self.by}@{self.host}"

    @property
    def remark(self) -> str:
        """The plan in the journal entry of its execution: the planner is the one that the plan claims."""
        return f"plan said to be of {self.author}" + (f": {self.reason}" if self.reason else "")

    def sealed(self) -> SavedPlan:
        """The plan with its digest."""
        return replace(self, digest=self._digest)

    @property
    def _digest(self) -> str:
        return _digest(msgspec.to_builtins(replace(self, digest="")))

    def require_whole(self) -> None:
        """Raises Invalid for a plan with another digest than its own, and for one with values that no saved plan has."""
        self._require_plain()
        if self.digest != self._digest:
            raise Invalid(f"digest: this plan was changed after it was saved; {AGAIN}")

    def _require_plain(self) -> None:
        for key, value in (("cluster", self.cluster), ("by", self.by), ("host", self.host)):
            if value != named(value):
                raise Invalid(
                    f"{key}: {value[:SHOWN]!r} is no name: one word of at most {LONGEST_NAME} characters; {AGAIN}"
                )
        if self.reason is not None and self.reason != plain(self.reason):
            raise Invalid(
                f"reason: a reason has at most {limits.REASON_CHARACTERS} characters, and no control characters; {AGAIN}"
            )
        for path in self.records:
            if len(path) > LONGEST_PATH or not path.isprintable() or not _RECORD.fullmatch(path):
                raise Invalid(f"records: {path[:SHOWN]!r} is the path of no record; {AGAIN}")

    def require_valid(self, cluster: str, now: float) -> None:
        """Raises NoCluster for a plan of another cluster, Invalid for one of the future, Conflict for one that has expired."""
        if self.cluster != cluster:
            raise NoCluster(
                f"this plan is for cluster {self.cluster}, and this is cluster {cluster}; nothing was changed"
            )
        if self.at.timestamp() > now + AHEAD_SECONDS:
            raise Invalid(f"at: this plan is said to be made in the future; nothing was changed; {AGAIN}")
        if now >= min(self.expires.timestamp(), self.at.timestamp() + VALID_SECONDS):
            raise Conflict(
                f"the plan of {self.author} has expired; save it again with --dry-run --save; nothing was changed"
            )


class FoundVersion(Protocol):
    """A znode that was read."""

    @property
    def version(self) -> int: ...
    @property
    def mzxid(self) -> int: ...


def versions(changes: Iterable[Change], there: Mapping[str, FoundVersion]) -> dict[str, int]:
    """The version of each record that is changed, by path. Records that only keep order are left out.

    >>> versions([Create("/ocb/nodes/n1"), Check("/ocb/structure", 4)], {})
    {'/ocb/nodes/n1': 0}
    """
    made: dict[str, int] = {}
    for change in changes:
        if isinstance(change, Check | Raise | Append) or _keeps_order(change):
            continue
        if isinstance(change, Create):
            made.setdefault(change.path, ABSENT)
        else:
            found = there.get(change.path)
            same = found is not None and found.version == change.version
            made.setdefault(change.path, found.mzxid if found is not None and same else MOVED)
    return made


def _keeps_order(change: Change) -> bool:
    return not isinstance(change, Delete | Check) and isinstance(change.data, Structure | Gate | Fence | Claim)


#: A plan that a call must carry out: the whole of it, or the digest of its basis.
PlanDemand: TypeAlias = SavedPlan | str


def moment(seconds: float) -> datetime:
    """A time in a plan, in whole seconds: they outlive every form of a file.

    >>> moment(0.7).isoformat()
    '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(int(seconds), UTC)


def named(text: str) -> str:
    """A login or a host as a plan has it: one word.

    >>> named("ann"), named("Ann\\x1b Smith"), named("")
    ('ann', 'Ann__Smith', 'unknown')
    """
    letters = (each if each.isprintable() and not each.isspace() else "_" for each in text[:LONGEST_NAME])
    return "".join(letters) or "unknown"


def plain(reason: str) -> str:
    """A reason as a plan has it: of bounded length, with spaces for control characters.

    >>> plain("new\\nkernel")
    'new kernel'
    """
    return "".join(each if each.isprintable() else " " for each in reason[: limits.REASON_CHARACTERS])


def end(at: datetime) -> datetime:
    """The time at which a plan expires."""
    return at + timedelta(seconds=VALID_SECONDS)


def is_moment(row: ChangeRow, field: str) -> bool:
    """Whether a field of a row is a time, which passes on with the clock. Attributes of people are none."""
    return row.kind not in differences.OF_ATTRIBUTES and field.rpartition("/")[2] in MOMENTS


def calm(row: ChangeRow) -> Json:
    """The row as JSON, without the values of moments, and of the login of the caller (``hold/by``)."""
    made: dict[str, Any] = msgspec.to_builtins(row)
    for field in made.get("fields", ()):
        name = field["field"]
        if is_moment(row, name) or (row.kind not in differences.OF_ATTRIBUTES and name.rpartition("/")[2] == "by"):
            field.update({key: None for key in ("old", "new") if key in field})
    return made


def shown(answer: bytes) -> Json:
    """An answer in JSON, as a plan shows it: without any secret."""
    made: Json = hidden(msgspec.json.decode(answer))
    return made


def _digest(value: Any) -> str:
    return hashlib.sha256(_encode(value)).hexdigest()[:DIGEST_LETTERS]
