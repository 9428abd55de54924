"""``nodepool-ocb status``: everything at a glance, errors first."""

from __future__ import annotations

from collections import Counter

import click

from nodepool_ocb.cli import connection, daemon, deployment, lock, node, output
from nodepool_ocb.cli.common import Verb
from nodepool_ocb.model import Json, State
from nodepool_ocb.world import World


@click.command(cls=Verb)
def command() -> None:
    """Everything at a glance: what failed, what moves, who works."""
    from nodepool_ocb.store import tree

    quarantined: dict[str, str] = {}
    with connection.session() as opened:
        opened.sync()
        world = tree.load(opened, quarantined)
    document = glance(world)
    document["quarantined"] = [{"path": path, "reason": reason} for path, reason in sorted(quarantined.items())]
    _print(document)


def glance(world: World) -> dict[str, Json]:
    """The document. Pure."""
    counts = Counter(vertex.record.state for vertex in world.vertices())
    failed = sorted((v for v in world.vertices() if v.record.state is State.ERROR), key=lambda each: each.name)
    rows = [node.row(view) for _, view in sorted(world.nodes.items()) if view.record]
    return {
        "cluster": world.cluster.record.id if world.cluster else None,
        "noderoles": {str(state): counts[state] for state in node.WORST},
        "errors": [{"noderole": v.name, "since": v.record.since, "reason": v.record.reason} for v in failed],
        "nodes": {
            "all": len(rows),
            "not_alive": [_brief(row) for row in rows if not row["alive"]],
            "not_available": [_brief(row) for row in rows if not row["available"]],
        },
        "deployments": deployment.rows(world),
        "daemons": daemon.rows(world),
        "claims": lock.rows(world),
    }


def _brief(row: dict[str, Json]) -> dict[str, Json]:
    return {key: row[key] for key in ("name", "since", "reason")}


def _print(document: dict[str, Json]) -> None:
    nodes = document["nodes"]
    counts = [{"state": state, "noderoles": count} for state, count in document["noderoles"].items()]
    sections = (
        ("IN ERROR", document["errors"], ("noderole", "since", "reason")),
        ("NODEROLES", counts, ("state", "noderoles")),
        (f"NODES NOT ALIVE, OF {nodes['all']}", nodes["not_alive"], ("name", "since", "reason")),
        (f"NODES NOT AVAILABLE, OF {nodes['all']}", nodes["not_available"], ("name", "since", "reason")),
        ("DEPLOYMENTS", document["deployments"], ("name", "parent", "state", "noderoles", "since")),
        ("DAEMONS", document["daemons"], ("kind", "id", "state", "host", "slots", "started")),
        ("AT WORK", document["claims"], ("node", "noderole", "owner", "since")),
        ("CANNOT BE READ", document["quarantined"], ("path", "reason")),
    )
    shown = [part for title, rows, columns in sections if rows for part in (title, output.table(rows, columns), "")]
    if not document["daemons"]:
        output.say("no annealer is running: nothing moves; systemctl start nodepool-ocb-annealer")
    output.thing(document, "status", *shown)
