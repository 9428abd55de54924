"""Entries of documents, and the tasks that they become.

An entry is the written mapping, with its place. Several notations of documents have one form in a task. ``role``, ``roles``,
``groups`` and ``tags`` become its roles. ``rsync`` becomes ``sync``. A strategy beside the parameters becomes its strategy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.documents.document import Document
from nodepool_ocb.documents.plainyaml import Key
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.tasklist import (
    Expression,
    Language,
    Relation,
    StrategyType,
    Task,
    TaskKind,
    TaskStrategy,
    relation,
)

#: The keys for the nodes of a task; the first that is there counts.
WHERE: Final = ("tags", "roles", "role", "groups")
CROSS_DEPENDS: Final = ("cross-depends", "cross_depends")
CROSS_DEPENDED_BY: Final = ("cross-depended-by", "cross_depended_by")

_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_MODEL: Final = re.compile(r"\b[A-Za-z_]\w*:")
_API: Final = re.compile(r"\bapi\s*\.")

#: Fuel's types that prepare a boot from the network. Here the task that needs the boot causes it.
OF_BOOTS: Final = frozenset({"move_to_bootstrap", "cobbler_sync"})


class TaskEntry(msgspec.Struct, frozen=True):
    """One entry: a mapping, with any faults."""

    document: Document
    key: Key
    origin: str = ""  # the list that it is from

    @property
    def raw(self) -> Mapping[str, Any]:
        value: Any = self.document.value
        for step in self.key:
            value = value[step]
        found: Mapping[str, Any] = value
        return found

    @property
    def id(self) -> str:
        """Its id; empty if it has none."""
        said = self.raw.get("id")
        return said if isinstance(said, str) else ""

    @property
    def place(self) -> str:
        """FILE:LINE."""
        return f"{self.document.name}:{self.document.line(self.key)}"

    @property
    def kind(self) -> TaskKind | None:
        """The kind that its type names; None if no such kind is known."""
        said = self.raw.get("type")
        said = "sync" if said == "rsync" else "skipped" if said in OF_BOOTS else said
        return TaskKind(said) if isinstance(said, str) and said in set(TaskKind) else None

    @property
    def parameters(self) -> Mapping[str, Any]:
        said = self.raw.get("parameters")
        return said if isinstance(said, dict) and self.raw.get("type") not in OF_BOOTS else {}

    def where(self) -> str | None:
        """The field that determines its nodes; None if there is none."""
        return next((field for field in WHERE if self.raw.get(field)), None)

    def names(self, *fields: str) -> list[tuple[Key, str]]:
        """The names in these fields, each with its key within the entry; other values than texts are left out."""
        found: list[tuple[Key, str]] = []
        for field in fields:
            found += _names((field,), self.raw.get(field))
        return found

    def relations(self, *fields: str) -> list[tuple[Key, Mapping[str, Any]]]:
        """The relations between nodes in these fields; other values than mappings are left out."""
        listed = ((field, self.raw.get(field)) for field in fields)
        return [
            ((field, index), each)
            for field, those in listed
            if isinstance(those, list)
            for index, each in enumerate(those)
            if isinstance(each, dict)
        ]


def _names(key: Key, value: Any) -> list[tuple[Key, str]]:
    if isinstance(value, str):
        return [(key, value)]
    listed = value if isinstance(value, list) else []
    return [((*key, index), each) for index, each in enumerate(listed) if isinstance(each, str)]


def roles_of(relation: Mapping[str, Any]) -> list[tuple[Key, str]]:
    """The roles that a relation names, each with its key within the relation."""
    return _names(("role",), relation.get("role"))


def condition(raw: Any, *, strict: bool = True) -> bool | Expression:
    """A condition as a document writes it; true if there is none. ``strict``: the default if the document does not set it.

    >>> condition("settings:storage.objects_ceph.value == true").language, condition("api.nodes_count() > 9").language
    (<Language.SETTINGS: 'settings'>, <Language.API: 'api'>)
    >>> condition({"yaql_exp": "changed($.x)"}).language, condition(False), condition(None)
    (<Language.YAQL: 'yaql'>, False, True)
    """
    if raw is None or isinstance(raw, bool):
        return raw is not False
    if isinstance(raw, dict) and "yaql_exp" in raw:
        return Expression(Language.YAQL, str(raw["yaql_exp"]))
    strict = raw.get("strict", strict) is not False if isinstance(raw, dict) else strict
    text = str(raw.get("condition", "") if isinstance(raw, dict) else raw)
    if not text.strip():
        return True
    bare = _QUOTED.sub("", text)
    api = _API.search(bare) is not None and _MODEL.search(bare) is None
    return Expression(Language.API if api else Language.SETTINGS, text, strict)


def expressions(value: Json, key: Key = ()) -> list[tuple[Key, Expression]]:
    """Every ``{yaql_exp: ...}`` in a value, with its key."""
    if isinstance(value, dict):
        if isinstance(value.get("yaql_exp"), str):
            return [(key, Expression(Language.YAQL, value["yaql_exp"]))]
        return [each for name, inner in value.items() for each in expressions(inner, (*key, name))]
    listed = value if isinstance(value, list) else []
    return [each for index, inner in enumerate(listed) for each in expressions(inner, (*key, index))]


def strategy(raw: Any) -> TaskStrategy | None:
    """A strategy as a document writes it."""
    if not isinstance(raw, dict):
        return None
    amount = raw.get("amount")
    if isinstance(amount, dict):
        amount = Expression(Language.YAQL, str(amount["yaql_exp"]))
    return TaskStrategy(StrategyType(raw["type"]), amount)


def skipped(entry: TaskEntry) -> bool:
    """Whether it is an upload without data: Fuel itself had the data for it."""
    return entry.kind is TaskKind.UPLOAD_FILE and "data" not in entry.parameters


def task(entry: TaskEntry, renamed: Mapping[str, str] = {}, *, lenient: bool = False) -> Task:
    """The result of an entry without faults. ``renamed``: names of others, as they are called instead.

    ``lenient``: a setting that is not there is null in conditions, as in Fuel.
    """
    raw, kind = entry.raw, entry.kind
    assert kind is not None
    where = entry.where()
    parameters = {
        name: value for name, value in entry.parameters.items() if name not in ("strategy", "fault_tolerance")
    }
    tolerance = raw.get("fault_tolerance", entry.parameters.get("fault_tolerance"))
    return Task(
        id=entry.id,
        kind=TaskKind.SKIPPED if skipped(entry) else kind,
        version=_version(raw.get("version", "1.0.0")),
        roles=_named(entry, where, {}) if where else (),
        requires=_named(entry, "requires", renamed),
        required_for=_named(entry, "required_for", renamed),
        cross_depends=_relations(entry, CROSS_DEPENDS, renamed),
        cross_depended_by=_relations(entry, CROSS_DEPENDED_BY, renamed),
        computed_depends=_computed(entry, CROSS_DEPENDS),
        computed_depended_by=_computed(entry, CROSS_DEPENDED_BY),
        condition=condition(raw.get("condition"), strict=not lenient),
        parameters=parameters,
        tasks=_named(entry, "tasks", renamed),
        stage=raw.get("stage"),
        strategy=strategy(entry.parameters.get("strategy", raw.get("strategy"))),
        fault_tolerance=None if tolerance is None else str(tolerance),
        trigger_rule=raw.get("trigger_rule", "all_success"),
        fail_on_error=raw.get("fail_on_error", True),
        reexecute_on=_named(entry, "reexecute_on", renamed),
        refresh_on=_named(entry, "refresh_on", renamed),
        origin=entry.origin,
        place=entry.place,
    )


def _named(entry: TaskEntry, field: str, renamed: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(renamed.get(name, name) for _, name in entry.names(field))


def _version(text: str) -> tuple[int, int, int]:
    major, minor, patch = map(int, text.split("."))
    return major, minor, patch


def _relations(entry: TaskEntry, fields: tuple[str, ...], renamed: Mapping[str, str]) -> tuple[Relation, ...]:
    return tuple(relation(raw, renamed) for _, raw in entry.relations(*fields))


def _computed(entry: TaskEntry, fields: tuple[str, ...]) -> tuple[Expression, ...]:
    said = (entry.raw.get(field) for field in fields)
    return tuple(found for each in said if isinstance(each, dict) for _, found in expressions(each))
