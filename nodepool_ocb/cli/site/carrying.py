"""How a plan is carried out: decided once, told, asked about, and written as it was told.

Where somebody changes the cluster meanwhile it is planned again, and goes on as long as that brings nothing new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import confirm
from nodepool_ocb.cli.noderoles import outdated
from nodepool_ocb.cli.rollouts import turns
from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.ranges import is_login
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.assignments import wrong_hint
from nodepool_ocb.operations.nodes.jigs import active_jigs
from nodepool_ocb.site import plan as plans
from nodepool_ocb.site.steps import Step
from nodepool_ocb.site.wanted import Circumstances, Kept, Wanted

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

Judge = Callable[[World, Wanted], None]  # raises Conflict where this is not to be done to that world


class Carrying:
    """What site files want, on its way into the cluster."""

    def __init__(self, wanted: Wanted, *, prune: bool = False, yes: bool = False, dry_run: bool = False) -> None:
        self.notes: list[str] = []
        self._wanted, self._prune, self._yes, self._dry_run = wanted, prune, yes, dry_run
        self._shown: frozenset[Step] | None = None
        self._written = 0
        _refuse_fields(wanted)

    def carry(self, judge: Judge = lambda *_: None) -> None:
        """Do it, and print what was, or would be, done."""

        def decide(opened: Session, world: World) -> Iterator[Sequence[Change]]:
            judge(world, self._wanted)
            return self._decide(opened, world)

        with session.session() as opened:
            changes = session.change(opened, decide, self._dry_run)
            said = [] if self._dry_run else self._outdated(opened)
        session.report(changes, self._dry_run, self.notes, self.notes)
        for sentence in said:
            output.say(sentence)

    def _decide(self, opened: Session, world: World) -> Iterator[Sequence[Change]]:
        found = self._plan(opened, world)
        self.notes[:] = found.notes
        if self._shown is None:
            self._tell(opened, world, found)
        else:
            self._refuse_more(found)
        turns.refuse(opened, found.world, found.moved)
        for transaction in found.transactions:
            yield transaction
            self._written += 1

    def _plan(self, opened: Session, world: World) -> plans.Plan:
        from nodepool_ocb.store.subtree import removal_as_judged

        settings = session.settings()
        jigs = active_jigs(world)
        about = Circumstances(
            now=opened.now(),
            by=session.me(),
            jigs=None if jigs is None else frozenset(jigs),
            admin_domain=settings.admin_domain or (world.cluster.record.admin_domain if world.cluster else None),
            available=settings.nodes.available,
        )
        removal = (lambda path: removal_as_judged(opened, world, path)) if self._prune else None
        return plans.plan(world, self._wanted, about, _kept(opened, world, self._wanted), removal)

    def _tell(self, opened: Session, world: World, found: plans.Plan) -> None:
        """Say how much it is, and ask before anything goes."""
        self._shown = frozenset(found.steps)
        count = Counter(step.change for step in found.steps)
        if found.steps:
            output.say("plan: " + ", ".join(f"{number} to {change}" for change, number in sorted(count.items())))
        for step in found.steps:
            if (step.change, step.kind) == ("propose", "deployment"):
                turns.warn(opened, world, step.name, "what it has sent waits until the deployment is committed")
        if found.going and not self._dry_run:
            confirm(f"delete {', '.join(found.going)}", self._yes)

    def _refuse_more(self, found: plans.Plan) -> None:
        more = [f"{step.change} {step.kind} {step.name}" for step in found.steps if step not in (self._shown or ())]
        if more:
            done = counted(self._written, "transaction was", "transactions were")
            raise Conflict(
                f"the cluster changed since this was planned, and it would take more now: {some(more)}; {done} written,"
                " and the same command goes on from there: look at it with --dry-run"
            )

    def _outdated(self, opened: Session) -> list[str]:
        """What is ACTIVE, and would be given something else now."""
        kinds = {step.kind for step in self._shown or ()}
        if kinds.isdisjoint({"role", "attributes", "deployment role"}):
            return []
        return outdated.sentences(opened, session.load(opened), lambda _: True)


def _kept(opened: Session, world: World, wanted: Wanted) -> dict[str, Kept]:
    """What users gave to the noderoles of which that is said."""
    from nodepool_ocb.store.client import codec

    asked = [
        paths.user(each.role, each.fqdn)
        for each in wanted.noderoles()
        if each.user is not None and world.vertex(each.name) is not None
    ]
    znodes = zip(asked, opened.get_many(asked) if asked else (), strict=True)
    return {path: Kept(codec.attributes(znode), znode.version) for path, znode in znodes if znode is not None}


def _refuse_fields(wanted: Wanted) -> None:
    """Values that no verb takes for a node: a wrong login, a wrong hint."""
    problems = [
        node.place.fault(f"{user!r} is no login: it is one word, and begins with no -")
        for node in wanted.nodes.values()
        if (user := node.fields.get("user")) is not None and not is_login(user)
    ]
    problems += [
        node.place.fault(problem)
        for node in wanted.nodes.values()
        for name, value in node.fields.get("hints", {}).items()
        if (problem := wrong_hint(name, value))
    ]
    if problems:
        raise Invalid(problems)
