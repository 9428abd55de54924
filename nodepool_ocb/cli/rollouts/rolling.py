"""Rollouts as commands see them: found by their names, read, shown in rows and words, and changed.

A rollout is written ``DEPLOYMENT/ID``; the deployment alone means its newest. What a person asks is one transaction: it
changes what the engine decides from, and the annealer that drives the rollout does the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from nodepool_ocb.cli.kit import completion, output
from nodepool_ocb.cli.kit.options import unknown
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json, LockOwner
from nodepool_ocb.rollout.records import LOST, Decision, GroupState, Rollout, RolloutRecord
from nodepool_ocb.rollout.report import ORDER, finish
from nodepool_ocb.views import rolloutlines
from nodepool_ocb.views.view import whole

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.store.rollouts import Versions

NOBODY: Final = "no annealer is running: nothing of a rollout moves; systemctl start nodepool-ocb-annealer"
MOST_LINES: Final = 10
GROUP_COLUMNS: Final = ("group", "critical", "state", "phase", "batch", "nodes", "since", "detail")
NODE_COLUMNS: Final = ("node", "state", "group", "since", "reason")

rollout_argument = click.argument("rollout", required=False, metavar="[ROLLOUT]", shell_complete=completion.rollouts)
deployment_option = click.option(
    "--deployment", shell_complete=completion.deployments, help="Of this deployment; else of the only one that has any."
)


class Key(NamedTuple):
    """Which rollout."""

    deployment: str
    id: str

    def __str__(self) -> str:
        return name(*self)


def name(deployment: str, id: str) -> str:
    """How a rollout is written everywhere."""
    return f"{deployment}/{id}"


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
        raise unknown("rollout", str(key), [name(key.deployment, id) for id in known])
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


# -- telling --


def row(key: Key, head: RolloutRecord, holder: LockOwner | None) -> dict[str, Json]:
    """A rollout at a glance."""
    return {
        "rollout": str(key),
        "deployment": key.deployment,
        "id": key.id,
        "strategy": head.strategy.name,
        "state": str(head.state),
        "reason": head.reason,
        "since": head.since,
        "started": head.started,
        "attempt": head.attempt,
        "by": head.by,
        "groups": len(head.groups),
        "nodes": head.nodes,
        "driver": whole(holder) if holder else None,
    }


def rows(opened: Session) -> list[dict[str, Json]]:
    """All of them at a glance: by deployment, the newest first."""
    from nodepool_ocb.store import rollouts

    found = sorted(rollouts.list_(opened), key=lambda each: (each.deployment, -int(each.id)))
    return [row(Key(each.deployment, each.id), each.record, each.holder) for each in found]


def words(row: Mapping[str, Json]) -> dict[str, Json]:
    """A row for a table."""
    holder = row["driver"]
    return {**row, "driver": f"{holder['daemon']} on {holder['host']}" if holder else None}


def print_row(row: Mapping[str, Json]) -> None:
    """One rollout at a glance: one document."""
    shown = ("rollout", "strategy", "state", "reason", "by", "groups", "nodes", "driver")
    output.thing(row, row["rollout"], output.fields({column: words(row)[column] for column in shown}))


def document(key: Key, rollout: Rollout, holder: LockOwner | None) -> dict[str, Json]:
    """All of a rollout."""
    named: dict[str, list[str]] = {str(state): [] for state in ORDER}
    for node, progress in rollout.nodes.items():
        named[str(progress.state)].append(node)
    return {
        **row(key, rollout.head, holder),
        "finish": finish(rollout),
        "groups": [group_row(rollout, each) for each in in_turn(rollout)],
        "nodes": {state: nodes for state, nodes in named.items() if nodes},
        "failed": [node_row(rollout, node) for node, progress in rollout.nodes.items() if progress.state in LOST],
        "next": list(rolloutlines.all_of(str(key), rollout)),
    }


def in_turn(rollout: Rollout) -> list[str]:
    """The groups in the order in which they began, then those that have not."""
    last = len(rollout.groups) + 1
    return sorted(rollout.groups, key=lambda each: rollout.groups[each].turn or last)


def group_row(rollout: Rollout, group: str) -> dict[str, Json]:
    """A group at a glance; its phase and batch are those where it is, or where it ended."""
    record = rollout.groups[group]
    phases = rollout.head.strategy.phases
    begun = record.state is not GroupState.NOT_STARTED and record.attempt > 0
    batches = len(record.group.batches) + 1 if record.group.batches else 1
    states = Counter(rollout.nodes[node].state for node in rollout.members[group])
    return {
        "group": group,
        "critical": record.group.critical,
        "state": str(record.state),
        "phase": phases[record.phase].name if begun else None,
        "batch": f"{record.batch + 1}/{batches}" if begun and batches > 1 else None,
        "members": len(rollout.members[group]),
        "nodes": {str(state): states[state] for state in ORDER if states[state]},
        "since": record.since,
        "reason": record.reason,
        "detail": record.detail,
        "unmet": list(record.unmet),
        "accepted": record.accepted,
        "by": record.by,
        "attempt": record.attempt,
        "depends_on": list(record.group.depends_on),
    }


def group_words(row: Mapping[str, Json]) -> dict[str, Json]:
    """A row of ``group_row`` for a table."""
    counts = ", ".join(f"{count} {state}" for state, count in row["nodes"].items())
    state = f"{row['state']}, accepted" if row["accepted"] else row["state"]
    return {**row, "nodes": counts or None, "state": state, "detail": row["accepted"] or row["detail"]}


def node_row(rollout: Rollout, node: str) -> dict[str, Json]:
    """A node at a glance."""
    progress = rollout.nodes[node]
    return {
        "node": node,
        "state": str(progress.state),
        "group": progress.group,
        "since": progress.since,
        "attempt": progress.attempt,
        "reason": progress.reason,
    }


def tables(document: Mapping[str, Json]) -> list[RenderableType]:
    """A document of ``document`` for people."""
    about = {key: document[key] for key in ("rollout", "strategy", "state", "reason", "since", "started", "by")}
    about["driver"] = words(document)["driver"]
    about["nodes"] = ", ".join(f"{len(nodes)} {state}" for state, nodes in document["nodes"].items()) or None
    parts: list[RenderableType] = [
        output.fields(about),
        "",
        output.table(map(group_words, document["groups"]), GROUP_COLUMNS),
    ]
    if document["failed"]:
        parts += ["", output.table(document["failed"], NODE_COLUMNS)]
    if document["next"]:
        parts += ["", output.verbatim(["to go on:", *(f"  {line}" for line in document["next"][:MOST_LINES])])]
    return parts


# -- commands --


def steer(opened: Session, key: Key, ask: Callable[[Rollout], Sequence[Decision]]) -> Rollout:
    """Write what somebody asks of a rollout, and print how it stands then: one document."""
    from nodepool_ocb.store import rollouts

    asked: list[Decision] = []

    def decide(rollout: Rollout) -> Sequence[Decision]:
        asked[:] = ask(rollout)
        return asked

    after = rollouts.steer(opened, *key, decide, opened.now())
    if not asked:
        output.say("nothing to do")
    for decision in asked:
        output.say(f"{f'group {decision.name}' if decision.name else f'rollout {key}'}: {decision.reason}")
    holder = driver(opened, key)
    print_row(row(key, after.head, holder))
    if not after.over:
        warn_of_nobody(opened)
    return after
