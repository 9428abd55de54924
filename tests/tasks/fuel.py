"""Fuel's released lists as plain YAML, and what their relations say, read slowly and without the product."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nodepool_ocb.tasks.plan import Member


def entries(folder: Path) -> list[dict[str, Any]]:
    """All entries below a folder, as Fuel read them."""
    return [entry for file in sorted(folder.rglob("tasks.yaml")) for entry in yaml.safe_load(file.read_text()) or []]


def _several(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())  # type: ignore[arg-type,call-overload,no-any-return]


def selector(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return next((_several(entry[key]) for key in ("tags", "role", "roles", "groups") if key in entry), ())


class Instances:
    """(task, node) as names, by the plain rules: no circles, no barriers, no groups but as names of nodes."""

    def __init__(self, said: Sequence[Mapping[str, Any]], nodes: Mapping[str, Sequence[str]]) -> None:
        self.entries = {entry["id"]: entry for entry in said}
        self.nodes = nodes  # node → roles; those of the admin node are ["master"]
        self.groups = {entry["id"]: selector(entry) for entry in said if entry["type"] == "group"}
        self.on = {
            name: self._nodes(entry) for name, entry in self.entries.items() if entry["type"] not in ("group", "stage")
        }

    def _nodes(self, entry: Mapping[str, Any]) -> set[str]:
        found = self.named(selector(entry))
        for name, group in self.entries.items():
            if group["type"] == "group" and entry["id"] in (group.get("tasks") or ()):
                found |= self.named(self.groups[name])
        return found

    def named(self, names: Sequence[str]) -> set[str]:
        return {node for node, roles in self.nodes.items() for name in names if self._means(name, roles)}

    def _means(self, name: str, roles: Sequence[str]) -> bool:
        if name in ("*", "master") or "master" in roles:
            return (name == "master") == ("master" in roles)
        if name.startswith("/"):
            return any(re.fullmatch(name[1:-1], role) for role in roles)
        return any(role in roles for role in self.groups.get(name, (name,)))

    def tasks(self, name: str) -> list[str]:
        if name.startswith("/"):
            return [each for each in self.entries if re.fullmatch(name[1:-1], each)]
        return [name] if name in self.entries else []

    def relations(self) -> Iterator[tuple[str, str]]:
        """Every (before, after) that the document names, for instances that there are; groups, and ``any``, left out."""
        for name, entry in self.entries.items():
            if entry["type"] == "group":
                continue
            for each in _several(entry.get("requires")):
                for before in self.tasks(each):
                    yield from self._plain(before, name)
            for each in _several(entry.get("required_for")):
                for after in self.tasks(each):
                    yield from self._plain(name, after)
            for key in ("cross-depends", "cross-depended-by"):
                for said in (each for each in entry.get(key) or () if each.get("policy") != "any"):
                    for other in self.tasks(said["name"]):
                        for pair in self._crossing(name, other, said.get("role", "*")):
                            yield pair if key == "cross-depends" else pair[::-1]

    def _plain(self, before: str, after: str) -> Iterator[tuple[str, str]]:
        stages = [self.entries[name]["type"] == "stage" for name in (before, after)]
        groups = [self.entries[name]["type"] == "group" for name in (before, after)]
        if any(groups):
            return
        first = [before] if stages[0] else [f"{before}@{node}" for node in self.on[before]]
        second = [after] if stages[1] else [f"{after}@{node}" for node in self.on[after]]
        for one in first:
            for other in second:
                if any(stages) or one.partition("@")[2] == other.partition("@")[2]:
                    yield one, other

    def _crossing(self, name: str, other: str, role: Any) -> Iterator[tuple[str, str]]:
        for node in self.on[name]:
            far = {node} if role == "self" else self.named(_several(role))
            for each in far & self.on[other]:
                if (other, each) != (name, node):
                    yield f"{other}@{each}", f"{name}@{node}"


def members(nodes: Mapping[str, Sequence[str]]) -> list[Member]:
    return [
        Member(
            name=name,
            uid=name.removeprefix("n"),
            roles=() if "master" in roles else tuple(roles),
            admin="master" in roles,
        )
        for name, roles in nodes.items()
    ]
