"""The records that live in ZooKeeper, and the changes that are written to them.

Every record is a frozen ``msgspec.Struct``. An operator reads its JSON in zk-shell: plain keys, ``"schema": 1``
first, defaults left out. Keys that this version does not know are kept in ``unknown`` and written back (store.codec).
Times are seconds since the epoch. Names are not part of a record: they are in the path (store.paths). ranges.py has
the ranges of numbers and the forms of names. A record outside of them cannot be read, and is not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from nodepool_ocb.model.aliveness import Mark, Suspicion
from nodepool_ocb.model.drift import CheckResult, Checks, Drift, PendingCheck
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.ranges import (
    Amount,
    Backoff,
    Count,
    DeploymentHook,
    ExitCode,
    Id,
    Login,
    Mac,
    Moment,
    Name,
    NodeHook,
    Noderole,
    NoderoleHook,
    Number,
    PrivateKey,
    Retries,
    RunName,
    Timeout,
    Times,
)

Once: TypeAlias = Literal["started", "done"]  # the progress of a destructive role

Json: TypeAlias = Any  # JSON: None, bool, int, float, str, list, dict with text keys


class State(StrEnum):
    """The state of a noderole."""

    __hash__ = str.__hash__  # an Enum's own is a function in Python, and tables are asked for each noderole

    PROPOSED = "PROPOSED"  # bound, not committed: people may still change it
    BLOCKED = "BLOCKED"  # committed, and a parent is not ACTIVE
    TODO = "TODO"  # every parent is ACTIVE: an annealer may take it
    TRANSITION = "TRANSITION"  # an annealer works on it now, or died while it did
    ACTIVE = "ACTIVE"  # done, in the generation that the record names
    ERROR = "ERROR"  # the jig failed; everything below waits


class DeploymentState(StrEnum):
    """Whether annealers may work in a deployment."""

    PROPOSED = "PROPOSED"  # people change it, annealers stay away
    COMMITTED = "COMMITTED"  # annealers work, people do not change it


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="schema", tag=1):
    """The key that all records share."""

    unknown: dict[str, Json] | None = None  # keys of a later version, kept and written back


class WipeMethod(StrEnum):
    """The ways in which a disk loses its data."""

    NONE = "none"  # it keeps them
    SIGNATURES = "signatures"  # its tables and file systems are not found any more; the data can be recovered
    DISCARD = "discard"  # blkdiscard: the disk forgets all blocks
    OVERWRITE = "overwrite"  # zeros over the whole disk
    NVME_FORMAT = "nvme-format"  # the format command of NVMe, with the erasure of user data


class InstallRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The wish of the newest request for an installation, over the attributes of the role."""

    image: Name | None = None  # of a disk image
    build: str = ""  # of that image; empty, or not READY any more: the newest one
    wipe: WipeMethod | None = None  # of all fixed disks of the machine; None: as the role says
    authorized_keys: tuple[str, ...] = ()  # of root on the new disk, beside those of the role


class Node(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """A machine: ``nodes/<fqdn>``."""

    deployment: str = "system"
    admin: bool = False
    virtual: bool = False  # no machine behind it: always alive, for noop noderoles that many nodes wait for
    alive: bool = False  # the framework's: it can be reached and logged in to
    available: bool = True  # the administrator's: annealers may work on it
    since: Moment = 0.0  # when alive or available changed last
    reason: str | None = None  # the result of the last probe: "connect: ...", with the step that failed
    mark: Mark | None = None  # while it is not alive: the author and the end of a mark
    suspicion: Suspicion | None = None  # while it is alive: one annealer does not reach it, and others look
    hold: Maintenance | None = None  # while it holds, nothing new begins on the node, and it is not probed
    addresses: tuple[str, ...] = ()  # "host" or "host:port", tried in order; IPv6 in brackets
    user: Login = "root"
    host_keys: tuple[str, ...] = ()  # pinned: "ssh-ed25519 AAAA..."
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    rack: str | None = None
    bootenv: str = "local"
    allow_install: bool = False  # the data of its disks may be erased by an installation
    install: InstallRequest | None = (
        None  # the wish of the newest `node reinstall` or `node decommission`, until it is done
    )
    decommissioned: Moment | None = None  # since when nothing runs on it: its machine was taken out of service
    hints: Mapping[str, Json] = {}
    macs: tuple[Mac, ...] = ()  # of its boot NICs, that of the hint admin-mac first; each has a MacOwner
    networks: Mapping[str, tuple[str, ...]] = {}  # network → its addresses there; each has a NetworkAddress
    hooks: tuple[NodeHook, ...] = ()  # node hooks that are still to run: on_node_create, on_node_change, on_node_delete
    changed: Mapping[
        str, str
    ] = {}  # field → "", or the role with the on_node_change that changed it: the changes for the next call of the hook
    deleting: bool = False  # deletion was asked for; goes when the hooks of on_node_delete have run
    dying: bool = (
        False  # not alive, and not all of its noderoles are set back yet: annealers neither claim nor revive it
    )
    epoch_base: Count = 0  # its epochs are above this, which is above those of all nodes that were deleted before


class Rare(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The fields of a noderole that nearly all noderoles leave at their defaults: one value, which noderoles share.

    A cluster has a hundred thousand noderoles, and each field of each costs eight bytes. So a noderole has one reference to
    this value, and properties of the same names. In JSON these fields stand among its other keys (store.codec).
    """

    serves: tuple[str, ...] = ()  # the cluster roles as which it is a member of its deployment's clusters
    reason: str | None = None  # why it stands where it stands, for ERROR and for back-off
    refresh: bool = False  # ACTIVE, to be run again in place; parents of others meanwhile
    check: PendingCheck | None = None  # with refresh: that run is a check, and changes nothing
    checked: CheckResult | None = None  # the result of the newest check, if no run followed
    mended: bool = False  # a schedule had it run again after drift, and no check has looked at its machine since
    once: Once | None = None  # of a destructive role: "started" (outcome not known yet) or "done"
    redeploy: bool = False  # of a destructive role that was done: it is to be done again, and has not begun
    not_before: Moment = 0.0  # back-off: not to be claimed before this time
    hooks: tuple[NoderoleHook, ...] = ()  # that are still to run, oldest first: on_proposed, on_todo, ...
    cancel_reason: str | None = None  # in TRANSITION: its run is to be ended, and why; then this is an ERROR
    task_run: Id | None = None  # of a noderole of a task list: its run of tasks
    rank: Times = 0  # of those that may start on its node the highest goes first


#: All at their defaults. A noderole with such fields has this very value, so that JSON leaves it out.
USUAL: Final = Rare()
RARE: Final = frozenset(Rare.__struct_fields__)


def altered(rare: Rare, **changes: Any) -> Rare:
    """The fields with other values of some of them. JSON leaves out a default only if it is the very value of the class.

    >>> msgspec.json.encode(altered(Rare(once="done"), not_before=float("0")))
    b'{"once":"done"}'
    """
    if rare is USUAL and not any(changes.values()):  # each default is false
        return rare
    changes.update({name: getattr(USUAL, name) for name, value in changes.items() if not value})
    made = replace(rare, **changes)
    return USUAL if made == USUAL else made


@lru_cache(maxsize=1024)
def shared(rare: Rare) -> Rare:
    """An equal value that other noderoles hold, if there is one: thousands serve as one role, or belong to one run of tasks.

    >>> shared(Rare()) is USUAL, shared(Rare(serves=("dns",))) is shared(Rare(serves=("dns",)))
    (True, True)
    """
    return USUAL if rare == USUAL else rare


class NodeRole(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1, gc=False):
    """A role bound to a node: ``nodes/<fqdn>/noderoles/<role>``."""

    state: State
    since: Moment
    deployment: str = "system"
    parents: tuple[str, ...] = ()  # "role@fqdn", or "role@*deployment" for a cluster's members; sorted
    generation: Count = 0  # counts the intended runs; begins above those of all noderoles deleted before
    run: RunName | None = None  # the newest run; its record is runs/<run>
    epoch: Count = 0  # the node's epoch under which that run was claimed
    given: Count = 0  # a digest of the inputs of the newest successful run; 0: not noted, 1: not known
    attempt: Times = 0  # runs of this generation's work since the last success or RETRY by a person
    by: str | None = None  # the author of the newest change
    rare: Rare = USUAL  # read by the properties below, and changed by ``amended``; no key in JSON: its fields are

    @classmethod
    def of(cls, **fields: Any) -> NodeRole:
        """A noderole with these fields, the rare ones too.

        >>> failed = NodeRole.of(state=State.ERROR, since=0.0, reason="no disk")
        >>> failed.reason, failed.amended(reason=None) == NodeRole(state=State.ERROR, since=0.0)
        ('no disk', True)
        """
        seldom = {name: fields.pop(name) for name in RARE.intersection(fields)}
        return cls(**fields, rare=shared(Rare(**seldom))) if seldom else cls(**fields)

    def amended(self, **changes: Any) -> NodeRole:
        """The record with other values of some fields, the rare ones too."""
        seldom = {name: changes.pop(name) for name in RARE.intersection(changes)}
        if seldom:
            changes["rare"] = altered(self.rare, **seldom)
        return replace(self, **changes)

    @property
    def serves(self) -> tuple[str, ...]:
        return self.rare.serves

    @property
    def reason(self) -> str | None:
        return self.rare.reason

    @property
    def refresh(self) -> bool:
        return self.rare.refresh

    @property
    def check(self) -> PendingCheck | None:
        return self.rare.check

    @property
    def checked(self) -> CheckResult | None:
        return self.rare.checked

    @property
    def mended(self) -> bool:
        return self.rare.mended

    @property
    def once(self) -> Once | None:
        return self.rare.once

    @property
    def redeploy(self) -> bool:
        return self.rare.redeploy

    @property
    def not_before(self) -> float:
        return self.rare.not_before

    @property
    def hooks(self) -> tuple[str, ...]:
        return self.rare.hooks

    @property
    def cancel_reason(self) -> str | None:
        return self.rare.cancel_reason

    @property
    def task_run(self) -> str | None:
        return self.rare.task_run

    @property
    def rank(self) -> int:
        return self.rare.rank

    @property
    def drift(self) -> Drift | None:
        """The result of the newest check since the newest run; None without one."""
        return self.checked.drift if self.checked else None


def keys_of(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The keys that JSON may have of a record of this kind, ``unknown`` left out; each is an attribute of the record, too.

    >>> keys_of(Fence), keys_of(NodeRole)[-3:]
    (('run', 'annealer', 'jig'), ('cancel_reason', 'task_run', 'rank'))
    """
    own = tuple(name for name in kind.__struct_encode_fields__ if name not in ("unknown", "rare"))
    return own + Rare.__struct_fields__ if kind is NodeRole else own


class Deployment(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``deployments/<name>``; "system" always exists, is COMMITTED, and has no parent."""

    parent: str | None = "system"
    state: DeploymentState = DeploymentState.PROPOSED
    since: Moment = 0.0
    by: str | None = None
    checks: Checks | None = None  # the times of checks of its ACTIVE noderoles
    pause: Maintenance | None = None  # while that holds nothing new begins in it, or in any deployment below it
    deleting: bool = (
        False  # a deletion in several transactions began: nothing enters it, and `deployment delete` finishes
    )


class Gate(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``deployments/<deployment>/clusters/<role>``: its version rises whenever a member joins, leaves or ceases to be
    satisfied; a claim below the cluster checks it instead of every member.
    """

    by: Noderole | None = None  # the member that raised it last: "role@fqdn"


class Structure(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``/ocb/structure``: its version rises whenever roles, deployments, nodes or noderoles come, go or are linked anew.

    Its numbers are no lower than those of any deleted object: a later object of the same name begins there.
    """

    generation: Count = 0  # of noderoles
    epoch: Count = 0  # of nodes, and above them: no two nodes of one name begin at the same
    rollout: Number = -1  # of rollouts and runs of tasks; their ids begin at 0


class Claim(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``nodes/<fqdn>/claim``, ephemeral: the annealer that works on the node now."""

    annealer: str
    noderole: str
    run: RunName
    epoch: Count
    since: Moment


class Fence(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``nodes/<fqdn>/fence``: the znode's version and the node's epoch_base make its epoch; the data is the newest claim's."""

    run: str | None = None
    annealer: str | None = None
    jig: str | None = None  # of the order of the run: a successor asks the machine by the same one


class ImageSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of an image in a builder's configuration, as far as builders are compared."""

    formats: tuple[str, ...] = ()
    rebuild_age_seconds: Moment = 0.0
    digest: str = ""  # of all of it but secrets: the same where builders make the same of it
    cannot: str | None = None  # why this builder cannot build it: a label, an architecture, a program; else None


class QuotaReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A provider's own limits, and the usage there that is not ours, as a launcher read them."""

    limits: Mapping[str, Amount] = {}
    foreign: Mapping[str, Amount] = {}
    read: Moment = 0.0  # when these amounts were read first


class Daemon(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``daemons/<kind>/<id>``, ephemeral."""

    host: str
    pid: Count
    version: str
    started: Moment
    state: str = "running"  # running or draining
    trouble: str | None = None  # why it is not ready, in one sentence
    paused: str | None = None  # author, end and reason of its pause
    jigs: tuple[str, ...] = ()
    slots: Times = 0
    code: tuple[str, ...] = ()  # of an annealer: the roles and barclamps with hooks that it can run
    pages: str | None = None  # HOST:PORT of its pages over HTTP
    certificate: str | None = None  # SHA-256 of the certificate with which it serves logs there
    references: tuple[str, ...] | None = (
        None  # of an annealer: the kinds of references that its settings let it resolve
    )
    log_dir: str | None = None  # of an annealer: the folder with the outputs of its runs, FQDN/ROLE-RUN.log
    left_out: Mapping[str, str] = {}  # extensions that are installed and not used: "jig NAME" → reason
    providers: tuple[str, ...] = ()  # of a builder: those that it reaches
    images: Mapping[str, ImageSettings] = {}  # of a builder: those that its configuration has
    quotas: Mapping[str, QuotaReport] = {}  # of a launcher: by provider; launchers share what one of them reads
    keeps: tuple[str, ...] | None = None  # of a launcher: the labels of its file with min-ready


class DaemonPause(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``paused/<kind>/<host>``: the daemons of a kind on a host begin nothing new."""

    pause: Maintenance


class Former(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The difference that leads from the inputs of a run to those of the run before it."""

    given: Count  # the digest of the former inputs
    changes: tuple[tuple[tuple[str, ...], Json], ...] = ()  # keys in the document of Given, and their former values
    gone: tuple[tuple[str, ...], ...] = ()  # keys at which nothing stood
    reason: str | None = None  # why that is not known


class Run(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``noderoles/<role>/runs/<run>``: the result of one attempt; the last ten are kept, some more for a while."""

    annealer: str
    started: Moment
    ended: Moment
    outcome: str  # succeeded, failed, unreachable, abandoned, unknown, died; of a check: in-sync, drifted, unknown
    generation: Count
    epoch: Count
    queued: Moment | None = None  # when nothing was left to wait for but an annealer
    exit_code: ExitCode | None = None
    reason: str | None = None
    tail: str | None = None  # the end of the output, at most 4 KiB
    log: str | None = None  # HOST:FILE of the whole output
    given: Count = 0  # of a successful run: the digest of its inputs
    former: Former | None = None  # if its inputs differ from those of the run before


class Given(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``noderoles/<role>/given``: the inputs of its newest successful run, long texts by their digests."""

    jig: str
    script: str | None = None  # its digest
    parameters: Mapping[str, Json] = {}
    attributes: Mapping[str, Json] = {}  # of its ancestors and its own, without its wall
    beside: Mapping[str, Json] = {}  # place (a/b/c) → other visible values that its role declares or wants
    reason: str | None = None  # why the rest is not here


class Attrib(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attribute that a role declares: a name for a path (``map``: a/b/c) in the JSON that its jig sees."""

    name: str
    map: str
    description: str | None = None
    default: Json = None
    schema: Json = None  # JSON Schema, translated from the barclamp's kwalify
    ui_renderer: str | None = None
    secret: bool = False  # its value is encrypted or a reference, and is not shown


class Role(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``roles/<name>``: a role as imported from a barclamp (seeds 000 and 001)."""

    barclamp: str
    jig: Name
    description: str | None = None
    flags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()  # those of ``attached`` included
    attached: tuple[str, ...] = ()  # required because other roles say so, by ``attaches`` or ``implementors``
    attaches: tuple[str, ...] = ()  # the roles that require this one because it says so
    implementors: Mapping[str, str] = {}  # of role barclamp-NAME: jig -> the role that roles of this jig require
    conflicts: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    wants_attribs: tuple[str, ...] = ()
    attribs: tuple[Attrib, ...] = ()
    template: Mapping[str, Json] = {}  # the attribs' defaults, merged at their places
    type: str | None = None  # the class of entry point nodepool_ocb.roles that carries its hooks
    hooks: tuple[str, ...] = ()  # the hooks which that class overrides; annealers run these, see docs/hooks.md
    task: str | None = None  # of a task list: its id there
    script: str | None = None  # the script of the script jig
    check: str | None = None  # the script of a check; "--check": its own script, with this argument
    parameters: Mapping[str, Json] = {}  # for its jig, e.g. {"delay": 3, "fail": true} of jig test
    timeout_seconds: Timeout = 1800.0
    retries: Retries = 0  # runs again this often before ERROR
    backoff_seconds: Backoff = 5.0  # before the first retry; doubles, at most 15 minutes


class DeploymentRole(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``deployments/<deployment>/roles/<role>``: a role's configuration for a whole deployment."""

    user: Mapping[str, Json] = {}
    system: Mapping[str, Json] = {}
    hooks: tuple[DeploymentHook, ...] = ()  # deployment hooks that are still to run
    deleting: bool = False
    refused: Mapping[DeploymentHook, str] = {}  # hook → why it refuses, until it agrees or is asked again


class Pointer(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """The execution that counts in a deployment. Its version rises with each driver, and with each command of people."""

    newest: Id | None = None
    over: bool = True  # the newest one is
    driver: str | None = None  # the annealer that drives it, or did until it died
    since: Moment = 0.0  # when any of this changed last
    id_base: Number = -1  # its ids are above this, which is no lower than any of a deployment that was deleted before


class RolloutPointer(Pointer, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``rollouts/<deployment>``: which rollout counts."""


class TaskRunPointer(Pointer, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``tasks/runs/<deployment>``: which run of tasks counts."""

    preparing: Id | None = None  # a run with noderoles that the holder of its lock is binding; the newest is over


class LockOwner(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """A contender of a lock, ephemeral: the statement of its holder about itself."""

    daemon: str
    host: str
    pid: Count
    purpose: str
    since: Moment


class Cluster(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``/ocb/cluster``: the id that is stamped on every external object; made by ``nodepool-ocb init`` alone."""

    id: str
    admin_domain: str | None = None
    readers: tuple[str, ...] = ()  # public keys of those that may read logs at daemons, the newest first


class LogKey(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``/ocb/keys/logs``: the key with which servers of the API, and people, read logs at daemons."""

    keys: tuple[
        PrivateKey, ...
    ] = ()  # private keys of Ed25519 in base64, the newest first; the public halves are in Cluster


# -- changes: a pure room returns them, and store.session.commit() writes all or nothing --


class Check(msgspec.Struct, frozen=True, gc=False):
    """Nothing is written; the znode must be at this version."""

    path: str
    version: int


class Create(msgspec.Struct, frozen=True, gc=False):
    """The znode must not exist. ``data`` is a record, or JSON for attribute blobs, or None for an empty znode."""

    path: str
    data: Record | Json = None
    ephemeral: bool = False


class Set(msgspec.Struct, frozen=True, gc=False):
    """The znode must be at this version (0 is a version; there is no "any")."""

    path: str
    data: Record | Json
    version: int


class Delete(msgspec.Struct, frozen=True, gc=False):
    """The znode must be at this version, and have no children."""

    path: str
    version: int


class Raise(msgspec.Struct, frozen=True, gc=False):
    """The gate must exist, at any version: the version rises by one. Any number may raise a gate at once."""

    path: str
    data: Gate


class Append(msgspec.Struct, frozen=True, gc=False):
    """A znode is made below ``path``, which must exist; its name is the next number there. Any number may do so at once."""

    path: str
    data: Record


Change: TypeAlias = Check | Create | Set | Delete | Raise | Append
