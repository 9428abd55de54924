"""Barclamps: OpenCrowbar's documents, and ours, to roles.

Every problem is reported with file, line and key, and disables as little as it can. A wrong role is left out, and the others
are imported (decision 053). Harmless input that OpenCrowbar took is a warning. Ours beside OpenCrowbar's keys: ``script``,
``check``, ``timeout_seconds``, ``retries``, ``backoff_seconds``, ``parameters`` (docs/barclamps.md).

The attributes that a barclamp declares outside its roles become those of an abstract role ``barclamp-<name>``. They can be
wanted and read, and nothing is bound. That role also keeps the implementors of jigs that the barclamp declares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from nodepool_ocb.catalogue import costs, files
from nodepool_ocb.catalogue import rules as roles
from nodepool_ocb.catalogue.attribs import Attribs
from nodepool_ocb.catalogue.code import find, overridden
from nodepool_ocb.catalogue.files import BarclampFile, Script
from nodepool_ocb.documents.document import Document
from nodepool_ocb.documents.plainyaml import Fault, Key
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine import drift
from nodepool_ocb.engine.binding import attaching
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json, Role

#: Keys of some old documents that order roles and have no known meaning; without them the order would be lost silently.
BACKWARDS = ("preceeds", "proceeds")

#: Keys with lists of names that become fields of a role, and keys that become fields as they are.
RELATED = ("requires", "attaches", "conflicts", "provides")
AS_WRITTEN = ("jig", "description", "type", "timeout_seconds", "retries", "backoff_seconds", "parameters")


class Imported(msgspec.Struct, frozen=True):
    """The roles of documents. ``problems`` are those of roles and documents that were left out."""

    roles: Mapping[
        str, Role
    ]  # and known roles of other barclamps with requirements that these documents state for them
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def load(sources: Iterable[Path | str], known: Mapping[str, Role] | None = None) -> Imported:
    """The roles in files, and in the ``*.yml`` and ``*.yaml`` files of directories.

    ``known`` are the roles that were imported before: they may be required, and a barclamp may define its own anew.
    Raises NotFound for a file that does not exist or a directory without documents; everything else is in the answer.
    """
    return imported(files.read(sources), known)


def imported(read: Iterable[BarclampFile], known: Mapping[str, Role] | None = None) -> Imported:
    """The barclamps of files that were read; otherwise as ``load``."""
    reader = _BarclampReader(known or {})
    for each in read:
        reader.read(files.checked(each))
    reader.compare()
    return Imported(dict(sorted(reader.changed().items())), tuple(reader.warnings), tuple(reader.problems))


class _Origin(msgspec.Struct, frozen=True):
    """The place of a role in a document."""

    document: Document
    key: Key
    scripts: Mapping[str, Script] = {}  # those that its keys ``script`` and ``check`` name

    def fault(self, text: str, *below: str | int) -> str:
        return self.document.fault((*self.key, *below), text)

    def item(self, field: str, item: str) -> Key:
        """The place of one item of a list, or of the list, as far as they are written."""
        raw = self.document.value
        for step in self.key:
            raw = raw[step]
        if not isinstance(raw, dict) or field not in raw:
            return ()
        listed = raw[field] or []
        return (field, listed.index(item)) if item in listed else (field,)


class _BarclampReader:
    """The roles read so far, and the problems."""

    def __init__(self, known: Mapping[str, Role]) -> None:
        self._known = known
        self._origins: dict[str, _Origin] = {}
        self._left_out: dict[str, _Origin] = {}
        self.roles: dict[str, Role] = {}
        self.warnings: list[str] = []
        self.problems: list[str] = []

    def read(self, file: BarclampFile) -> None:
        """Read one document; a fault that concerns the whole document leaves all of it out."""
        document = file.document
        if document is None:
            self.problems += file.problems
            return
        self.warnings += document.warnings
        self._note(document, file.faults)
        refused = file.refused
        if () in refused:
            return
        barclamp: str = document.value["barclamp"]["name"]
        for index, raw in enumerate(document.value.get("roles") or [] if ("roles",) not in refused else []):
            origin = _Origin(document, ("roles", index), file.scripts.get(index, {}))
            if ("roles", index) not in refused:
                self._role(origin, barclamp, raw)
            elif isinstance(raw, dict) and isinstance(raw.get("name"), str):
                self._left_out.setdefault(raw["name"], origin)
        self._barclamp(document, barclamp, refused)

    def _barclamp(self, document: Document, barclamp: str, refused: Collection[Key]) -> None:
        """The abstract role that keeps the attributes and the implementors which a barclamp declares outside its roles."""
        read = {key: document.value.get(key) or [] for key in ("attribs", "jigs") if (key,) not in refused}
        implementors = {jig.get("name"): jig["implementor"] for jig in read.get("jigs", ()) if jig.get("implementor")}
        if read.get("attribs") or implementors:
            own = {"name": f"barclamp-{barclamp}", "jig": "noop", "flags": ["abstract", "library"]}
            about = {"description": f"Attributes of barclamp {barclamp} that belong to no role"}
            raw = {**own, **about, "attribs": read.get("attribs", [])}
            self._role(_Origin(document, ()), barclamp, raw, implementors)

    def _note(self, document: Document, faults: Iterable[Fault]) -> None:
        """A warning for each fault that costs nothing, a problem for each other one."""
        for fault in faults:
            if costs.nothing(fault):
                self.warnings.append(Fault(fault.line, f"{fault.text}; ignored", fault.path).at(document.name))
            else:
                self.problems.append(fault.at(document.name))

    def _role(
        self, origin: _Origin, barclamp: str, raw: Mapping[str, Json], implementors: Mapping[str, str] | None = None
    ) -> None:
        name: str = raw["name"]
        before = self._origins.get(name)
        known = self._known.get(name)
        if before is not None:
            there = f"{before.document.name}:{before.document.line(before.key)}"
            self.problems.append(origin.fault(f"role {name} is defined in {there} already; rename one of them"))
            return
        if known is not None and known.barclamp != barclamp:
            text = f"role {name} belongs to barclamp {known.barclamp}, which was imported before; rename this one"
            self.problems.append(origin.fault(text))
            return
        problems: list[str] = []
        role = replace(self._made(origin, barclamp, raw, problems), implementors=implementors or {})
        self.problems += problems
        if problems:
            self._left_out.setdefault(name, origin)
        else:
            self.roles[name], self._origins[name] = role, origin

    def _made(self, origin: _Origin, barclamp: str, raw: Mapping[str, Json], problems: list[str]) -> Role:
        for key in BACKWARDS:
            if key in raw:
                text = f"`{key}` is not supported; list this role under `requires` of those that come after it"
                problems.append(origin.fault(text, key))
        attribs = Attribs(lambda text, *below: origin.fault(text, "attribs", *below))
        attribs.read(raw.get("attribs") or [])
        problems += attribs.problems
        self.warnings += attribs.warnings
        related: dict[str, Any] = {word.replace("-", "_"): _names(raw, word) for word in RELATED}
        return Role(
            barclamp=barclamp,
            attribs=tuple(attribs.found),
            template=attribs.template,
            flags=self._flags(origin, raw, problems),
            hooks=self._hooks(origin, barclamp, raw, problems),
            script=self._script(origin, raw, problems),
            check=self._check(origin, raw, problems),
            wants_attribs=self._wanted(origin, raw),
            **related,
            **{word: raw[word] for word in AS_WRITTEN if raw.get(word) is not None},
        )

    def _wanted(self, origin: _Origin, raw: Mapping[str, Json]) -> tuple[str, ...]:
        """The names of the attributes that a role wants; OpenCrowbar's ``at`` is not supported, and costs a warning."""
        names: list[str] = []
        for index, wanted in enumerate(raw.get("wants-attribs") or ()):
            names.append(wanted if isinstance(wanted, str) else wanted["name"])
            if isinstance(wanted, dict) and "at" in wanted:
                text = f"is not supported: the value is not at {wanted['at']}, but where attribute {wanted['name']} is declared"
                self.warnings.append(origin.fault(text, "wants-attribs", index, "at"))
        return tuple(dict.fromkeys(names))

    def _flags(self, origin: _Origin, raw: Mapping[str, Json], problems: list[str]) -> tuple[str, ...]:
        for index, flag in enumerate(raw.get("flags") or []):
            if flag not in roles.FLAGS + roles.LEGACY_FLAGS:
                meant = did_you_mean(flag, roles.FLAGS, present=raw["flags"])
                text = f"unknown flag `{flag}`{meant or '; it is kept and changes nothing'}"
                (problems if meant else self.warnings).append(origin.fault(text, "flags", index))
        return _names(raw, "flags")

    def _hooks(self, origin: _Origin, barclamp: str, raw: Mapping[str, Json], problems: list[str]) -> tuple[str, ...]:
        try:
            code = find(raw["name"], barclamp)
        except Invalid as error:
            problems.append(origin.fault(f"its Python class cannot be used: {error}"))
            return ()
        if code is not None:
            return overridden(type(code))
        known = self._known.get(raw["name"])
        kept = known.hooks if known is not None and known.type == raw.get("type") else ()
        if kept or raw.get("type") or raw["jig"] == "role-provided":
            where = f"entry point {raw['name']} or {barclamp} of group nodepool_ocb.roles"
            then = f"its hooks stay as imported before: {', '.join(kept)}" if kept else "its own code does not run"
            text = f"no installed package offers its Python class ({where}); without it, {then}"
            self.warnings.append(origin.fault(text, "type" if raw.get("type") else "jig"))
        return kept

    def _script(self, origin: _Origin, raw: Mapping[str, Json], problems: list[str]) -> str | None:
        given, jig = raw.get("script"), raw["jig"]
        if given is None and jig != "script":
            return None
        script = origin.scripts["script"]
        if isinstance(script, tuple):
            problems += [origin.fault(text, "script" if given else "name") for text in script]
            return None
        if script is None:
            text = f"jig script has no script to run; add `script:`, or files script/roles/{raw['name']}/*.sh"
            self.warnings.append(origin.fault(text, "jig"))
        return script

    def _check(self, origin: _Origin, raw: Mapping[str, Json], problems: list[str]) -> str | None:
        given, jig = raw.get("check"), raw["jig"]
        if given is None:
            return None
        if jig == "noop":
            problems.append(
                origin.fault(
                    "jig noop does nothing on a machine, so there is nothing to check; remove this key", "check"
                )
            )
            return None
        if given is True:
            return drift.HONOURED
        script = origin.scripts["check"]
        if isinstance(script, tuple):
            problems += [origin.fault(text, "check") for text in script]
            return None
        return script

    # -- among roles --

    def compare(self) -> None:
        """Look at the roles beside each other and the known ones; leave out the roles that can never be bound."""
        self._misplaced_flags()
        while self._leave_out():
            pass  # the former version of a left-out role stays, and may contradict another role
        for finding in roles.loose_ends(self._catalogue()):
            lacking = finding.field == "requires" and finding.item in self._left_out
            if finding.role in self.roles and not lacking:
                self.warnings.append(self._fault(finding))
        self._requires_left_out()

    def _catalogue(self) -> dict[str, Role]:
        """The known roles and those read, each with the requirements that others state for it."""
        known = {name: attaching.as_written(role) for name, role in self._known.items()}
        return attaching.complete({**known, **self.roles})

    def changed(self) -> dict[str, Role]:
        """The roles that were read, and the known ones that these change."""
        catalogue = self._catalogue()
        return {name: role for name, role in catalogue.items() if name in self.roles or role != self._known[name]}

    def _requires_left_out(self) -> None:
        """Warn about roles that require one that is left out, and name the role that counts in its place."""
        for name, role in sorted(self.roles.items()):
            for need in role.requires:
                if need not in self.roles and need in self._left_out:
                    origin = self._left_out[need]
                    there = f"{origin.document.name}:{origin.document.line(origin.key)}"
                    known = need in self._known
                    until = f"{need} as it was imported before counts" if known else "this role cannot be bound"
                    text = f"requires {need}, which is left out ({there}); until it is mended, {until}"
                    self.warnings.append(self._fault(roles.RoleFinding(name, "requires", need, text)))

    def _leave_out(self) -> bool:
        """Leave out the roles that have problems; whether there were any."""
        before = len(self.roles)
        for finding in list(roles.problems(self._catalogue())):
            to_blame = sorted((finding.others | {finding.role}) & self.roles.keys())
            if to_blame:
                first = finding.role if finding.role in to_blame else to_blame[0]
                self.problems.append(self._fault(replace(finding, role=first)))
            for name in to_blame:
                self._left_out[name] = self._origins[name]
                del self.roles[name]
        return len(self.roles) < before

    def _fault(self, finding: roles.RoleFinding) -> str:
        origin = self._origins[finding.role]
        return origin.fault(finding.text, *origin.item(finding.field, finding.item))

    def _misplaced_flags(self) -> None:
        """Remove a role's requirement of itself; make a flag among its requirements a flag."""
        for name, role in self.roles.items():
            origin = self._origins[name]
            catalogue = {*self.roles, *self._known}
            flags = [need for need in role.requires if need in roles.FLAGS and need not in catalogue]
            for flag in flags:
                text = f"`{flag}` is a flag, not a role; it is read as a flag here, move it under `flags`"
                self.warnings.append(origin.fault(text, *origin.item("requires", flag)))
            if name in role.requires:
                text = "a role cannot require itself; the line is ignored, take it away"
                self.warnings.append(origin.fault(text, *origin.item("requires", name)))
            requires = tuple(need for need in role.requires if need != name and need not in flags)
            self.roles[name] = replace(role, requires=requires, flags=tuple(dict.fromkeys((*role.flags, *flags))))


def _names(raw: Mapping[str, Json], key: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(raw.get(key) or ()))
