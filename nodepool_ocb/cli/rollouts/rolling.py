"""Rollouts as commands see them: found by their names, read, shown in rows and words, and changed.

A rollout is written ``DEPLOYMENT/ID``; the deployment alone means its newest. What a person asks is one transaction: it
changes what the engine decides from, and the annealer that drives the rollout does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import click

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.rollouts import stages
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine.acting.annealers import START
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, LockOwner
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.rollout.records import Decision, Rollout
from nodepool_ocb.views.rollouts import rows as shown
from nodepool_ocb.views.rollouts import tables
from nodepool_ocb.views.rollouts.rows import Key, RolloutDocument, RolloutRow

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.store.rollouts import Versions

NOBODY: Final = f"no annealer is running: nothing of a rollout moves; {START}"
MOST_LINES: Final = 10
GROUP_COLUMNS: Final = ("group", "critical", "state", "phase", "batch", "nodes", "since", "detail")
NODE_COLUMNS: Final = ("node", "state", "group", "since", "reason")

rollout_argument = click.argument("rollout", required=False, metavar="[ROLLOUT]", shell_complete=completion.rollouts)
deployment_option = click.option(
    "--deployment", shell_complete=completion.deployments, help="Of this deployment; else of the only one that has any."
)


# -- finding and reading --


def find(opened: Session, written: str | None, deployment: str | None) -> Key:
    """The rollout that is meant by ``DEPLOYMENT``, ``DEPLOYMENT/ID``, an id, or nothing; raises NotFound.

    Leading zeros of an id may be left out.
    """
    opened.sync()
    known = sorted(opened.children(paths.ROLLOUTS) or [])
    first, slash, id = (written or "").partition("/")
    if first and not slash and (deployment or first.isdecimal()) and first not in known:
        first, id = "", first
    found = _deployment(known, first or deployment)
    return Key(found, id.zfill(10) if id else _newest(opened, found))


def _deployment(known: Sequence[str], wanted: str | None) -> str:
    if wanted is not None:
        if wanted not in known:
            raise unknown("rollout of deployment", wanted, known)
        return wanted
    if not known:
        raise NotFound("there is no rollout; nodepool-ocb rollout start begins one")
    if len(known) > 1:
        raise click.UsageError(f"several deployments have rollouts: {', '.join(known)}; name one of them")
    return known[0]


def _newest(opened: Session, deployment: str) -> str:
    from nodepool_ocb.store import rollouts

    newest = rollouts.newest(opened, deployment)
    if newest is None:
        raise NotFound(f"deployment {deployment} has no rollout; nodepool-ocb rollout start begins one")
    return newest


def load(opened: Session, key: Key) -> tuple[Rollout, Versions]:
    """The whole rollout as it is now; raises NotFound."""
    from nodepool_ocb.store import rollouts

    opened.sync()
    found = rollouts.read(opened, *key)
    if found is None:
        known = [id for id in opened.children(paths.rollouts(key.deployment)) or [] if id.isdecimal()]
        raise unknown("rollout", str(key), [shown.name(key.deployment, id) for id in known])
    return found


def group_of(rollout: Rollout, group: str) -> str:
    """The name of a group that there is; raises NotFound."""
    if group not in rollout.groups:
        near = did_you_mean(group, rollout.groups)
        raise NotFound(f"group {group} does not exist{near or '; see: nodepool-ocb rollout show'}")
    return group


def driver(opened: Session, key: Key) -> LockOwner | None:
    """Who drives the rollout."""
    from nodepool_ocb.store.locks import holders

    return holders(opened, [paths.rollout_lock(*key)])[0]


def warn_of_nobody(opened: Session) -> None:
    """Say so where no annealer is running."""
    if not opened.children(paths.daemons("annealer")):
        output.say(NOBODY)


# -- showing --


def rows(opened: Session) -> list[RolloutRow]:
    """All of them at a glance: by deployment, the newest first."""
    from nodepool_ocb.store import rollouts

    found = sorted(rollouts.list_(opened), key=lambda each: (each.deployment, -int(each.id)))
    return [shown.row(Key(each.deployment, each.id), each.record, each.holder, each.groups) for each in found]


def print_row(row: RolloutRow) -> None:
    """One rollout at a glance: one document."""
    output.thing(row, row.rollout, output.fields(tables.words(row), but=("since", "started")))


def parts(document: RolloutDocument) -> list[RenderableType]:
    """A rollout for people."""
    made: list[RenderableType] = [
        output.fields(tables.about(document)),
        "",
        output.table(map(tables.group_words, document.groups), GROUP_COLUMNS),
    ]
    if document.failed:
        made += ["", output.table(document.failed, NODE_COLUMNS)]
    if document.next:
        made += ["", output.verbatim(["to go on:", *(f"  {line}" for line in document.next[:MOST_LINES])])]
    return made


# -- commands --


def steer(opened: Session, key: Key, ask: Callable[[Rollout], Sequence[Decision]], dry_run: bool = False) -> None:
    """Write what somebody asks of a rollout, and print how it stands then: one document; or what a dry run would change."""
    from nodepool_ocb.store import rollouts

    asked: list[Decision] = []

    def decide(rollout: Rollout) -> Sequence[Decision]:
        try:
            asked[:] = ask(rollout)
        except Conflict as refused:
            if str(key) in str(refused):
                raise
            raise Conflict(f"{refused}; look at it: nodepool-ocb rollout show {key}") from None
        return asked

    def joined(rollout: Rollout) -> Sequence[Change]:
        return stages.goes_on(opened, key.deployment, rollout)

    if dry_run:
        _, would = rollouts.proposal(opened, *key, decide, opened.now(), joined)
        changes = session.decided(opened, lambda: [would] if asked else [], dry_run)
        session.report(changes, dry_run, [_said(key, decision) for decision in asked])
        return
    after = rollouts.steer(opened, *key, decide, opened.now(), joined)
    if not asked:
        output.say("nothing to do")
    for decision in asked:
        output.say(_said(key, decision))
    holder = driver(opened, key)
    print_row(shown.row(key, after.head, holder, after.groups))
    if not after.over:
        warn_of_nobody(opened)


def _said(key: Key, decision: Decision) -> str:
    return f"{f'group {decision.name}' if decision.name else f'rollout {key}'}: {decision.reason}"
