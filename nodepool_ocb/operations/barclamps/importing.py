"""``barclamp import``, and the check of documents for ``barclamp check``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from nodepool_ocb.catalogue import files, importing
from nodepool_ocb.catalogue.files import BarclampFile
from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine import inputs, structure, unreadable
from nodepool_ocb.engine.inputs import templates
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid, bounded
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Role
from nodepool_ocb.operations import owners
from nodepool_ocb.operations.commits import outdated
from nodepool_ocb.operations.names import catalogue
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.announcement import Announcement
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.views import cluster
from nodepool_ocb.views import roles as shown
from nodepool_ocb.views.roles import CheckedRoles


class BarclampsImported(Explained, frozen=True, kw_only=True):
    """The answer of an import. ``problems`` are those of roles and documents that were left out."""

    roles: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class BarclampImport(Operation[BarclampsImported], frozen=True, kw_only=True):
    """Import the roles of documents; a role with a problem is left out. Notes have the warnings.

    The Python code of roles is looked for among the packages of the host that performs it.
    """

    noun = "barclamp"
    verb = "import"
    right = Right.OPERATOR
    reads = (ReadWorld, Announcement, *outdated.READS, *owners.READS)
    writes = ("role",)

    files: tuple[BarclampFile, ...]
    whole: bool = False  # import nothing if a role has a problem

    def decide(self, situation: Situation) -> Steps[BarclampsImported]:
        """Raises Invalid for a problem, if it is to be ``whole``; Conflict while a role cannot be read."""
        from nodepool_ocb.catalogue import barclamp  # jsonschema takes long to import

        world = yield from ReadWorld()
        unreadable.refuse_import(world)
        found = barclamp.imported(self.files, catalogue(world))
        yield from Announcement(_warnings(found.warnings))
        if found.problems and self.whole:
            raise Invalid(found.problems)
        changed = {change.path for change in situation.written}
        for transaction in structure.in_parts(world, ([each] for each in importing.changes(world, found.roles))):
            yield transaction
            changed |= {change.path for change in transaction}
        after: list[str] = []
        if not situation.call.dry_run:
            after += yield from _outdated(world, changed)
        after += yield from _in_plain_text(world, found.roles)
        return BarclampsImported(
            roles=tuple(found.roles),
            warnings=tuple(found.warnings),
            problems=tuple(found.problems),
            after=tuple(after),
        )


def check(sources: Iterable[Path | str]) -> tuple[CheckedRoles, tuple[str, ...]]:
    """The roles, warnings and problems of documents, and the sentences about the warnings; raises NotFound."""
    from nodepool_ocb.catalogue import barclamp

    document = shown.checked(barclamp.load(sources))
    return document, _warnings(document.warnings)


def read(sources: Iterable[Path | str]) -> tuple[BarclampFile, ...]:
    """The documents of a caller, for ``BarclampImport``; raises NotFound."""
    return files.read(sources)


def _warnings(found: Collection[str]) -> tuple[str, ...]:
    return tuple(f"warning: {each}" for each in bounded(tuple(found), "warnings"))


def _outdated(before: World, changed: Collection[str]) -> Steps[list[str]]:
    """Sentences about outdated noderoles. If no noderole rests on a changed role, nothing is read for them."""
    known = catalogue(before)
    concerned = inputs.resting_on(known, [name for name in known if paths.role(name) in changed])
    if not any(vertex.role in concerned for vertex in before.vertices()):
        return []
    world = yield from ReadWorld()
    return (yield from outdated.sentences(world, lambda vertex: vertex.role in concerned))


def _in_plain_text(before: World, imported: Mapping[str, Role]) -> Steps[list[str]]:
    """A sentence about values in plain text that the imported roles declare as secret, and that were not declared before."""
    former = catalogue(before)
    known = former | dict(imported)
    younger = [name for name in former if set(templates.secret(known, name)).difference(templates.secret(former, name))]
    if not younger:
        return []
    owned = yield from owners.of(before, younger)
    found = [f"{row.name}: {row.attribute}" for row in cluster.in_plain_text(owned, known)]
    if not found:
        return []
    return [
        f"warning: declared as secret now, and stored in plain text: {some(found)}; to encrypt it:"
        " nodepool-ocb secret rotate. Change the secret itself, too: ZooKeeper's logs and the journal keep the plain text"
    ]
