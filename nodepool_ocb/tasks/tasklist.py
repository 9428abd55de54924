"""The values of a task list (seed 002, and Fuel's own documents). ``reading`` makes them from files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import msgspec

from nodepool_ocb.model.records import Json

EVERY: Final = "*"  # of selectors: every node but the admin node
MASTER: Final = "master"  # of selectors: the admin node alone
SELF: Final = "self"  # of relations: this node


class TaskKind(StrEnum):
    """The action of a task."""

    GROUP = "group"  # nothing: it names nodes, and in which order they are done
    STAGE = "stage"  # nothing: all that is before it is finished on every node
    SKIPPED = "skipped"  # nothing: it keeps a place in the order
    SHELL = "shell"  # a command on the node
    MASTER_SHELL = "master_shell"  # a command on the admin node
    PUPPET = "puppet"  # puppet apply on the node
    UPLOAD_FILE = "upload_file"  # a text becomes a file on the node
    UPLOAD_FILES = "upload_files"  # several texts become files
    COPY_FILES = "copy_files"  # files of the admin node become files on the node
    SYNC = "sync"  # a directory of the admin node becomes one on the node, by rsync
    REBOOT = "reboot"  # the node boots again
    PROVISION = "provision"  # the node gets an image on its disk
    ERASE_NODE = "erase_node"  # the disks of the node lose their data, and the node is decommissioned


#: The kinds that have nothing to run.
ORDER_ONLY: Final = frozenset({TaskKind.GROUP, TaskKind.STAGE, TaskKind.SKIPPED})


class Policy(StrEnum):
    """Which instances of a task a relation between nodes means."""

    ALL = "all"  # all of them
    ANY = "any"  # one of them, chosen in the same way each time


class Language(StrEnum):
    """The language of a condition."""

    API = "api"  # of Fuel's design of data-driven tasks: ``api.role_in_deployment('ceph-osd')``, in jinja2's syntax
    SETTINGS = "settings"  # Fuel's: ``settings:storage.objects_ceph.value == true``
    YAQL = "yaql"  # ``{yaql_exp: ...}``


class StrategyType(StrEnum):
    """How a group's nodes, or the instances of one task, follow one another."""

    ONE_BY_ONE = "one_by_one"
    PARALLEL = "parallel"  # all at once, or ``amount`` of them


class Expression(msgspec.Struct, frozen=True):
    """Something to be evaluated."""

    language: Language
    text: str
    strict: bool = True  # of the settings language: a path that leads nowhere is an error, else it is null


class TaskStrategy(msgspec.Struct, frozen=True):
    """``amount``: of a group the size of its chunks, of a task how many instances run at once; None: all."""

    order: StrategyType
    amount: int | Expression | None = None


class Relation(msgspec.Struct, frozen=True):
    """An order between nodes: ``cross-depends`` and ``cross-depended-by``."""

    name: str  # of a task, or /pattern/ of names
    roles: tuple[str, ...] | None = (EVERY,)  # names, /patterns/, "*" or "self"; None: stages, which belong to no node
    policy: Policy = Policy.ALL


def relation(raw: Mapping[str, Any], renamed: Mapping[str, str] = {}) -> Relation:
    """A relation as a document or an expression writes it; ``renamed``: present names of tasks by those in the document."""
    role = raw.get("role", EVERY)
    listed = [role] if isinstance(role, str) else role if isinstance(role, list) else []
    return Relation(
        renamed.get(raw["name"], raw["name"]),
        None if role is None else tuple(each for each in listed if isinstance(each, str)),
        Policy(raw.get("policy", Policy.ALL)),
    )


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a list, of any kind."""

    id: str
    kind: TaskKind
    version: tuple[int, int, int] = (1, 0, 0)
    roles: tuple[str, ...] = ()  # where it runs: roles and groups by name, /patterns/, "*", "master"
    requires: tuple[str, ...] = ()  # names, or /patterns/
    required_for: tuple[str, ...] = ()
    cross_depends: tuple[Relation, ...] = ()
    cross_depended_by: tuple[Relation, ...] = ()
    computed_depends: tuple[Expression, ...] = ()  # each is worth relations, on each node for itself
    computed_depended_by: tuple[Expression, ...] = ()
    condition: bool | Expression = True
    parameters: Mapping[str, Json] = {}
    tasks: tuple[str, ...] = ()  # of a group: these run on its nodes, too
    stage: str | None = None  # of old plugins: STAGE or STAGE/NUMBER
    strategy: TaskStrategy | None = None
    fault_tolerance: str | None = None  # of a group: "2", "10%", "-3"; None: unlimited
    trigger_rule: str = "all_success"  # of a stage: all_success, or all_done
    fail_on_error: bool = True  # false: a failure counts as skipped
    reexecute_on: tuple[str, ...] = ()
    refresh_on: tuple[str, ...] = ()
    origin: str = ""  # "release 9.0" or "deployment lab"
    place: str = ""  # FILE:LINE


class TaskList(msgspec.Struct, frozen=True, dict=True):
    """Tasks in the order of their files; ids are unique."""

    tasks: tuple[Task, ...] = ()
    compat_prefix: bool = False  # /patterns/ match the beginnings of names, as Fuel had it

    @cached_property
    def by_id(self) -> Mapping[str, Task]:
        return {task.id: task for task in self.tasks}

    def of_kind(self, kind: TaskKind) -> Iterator[Task]:
        return (task for task in self.tasks if task.kind is kind)
