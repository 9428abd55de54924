"""``nodepool-ocb status``: everything at a glance, errors first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import click
import msgspec

from nodepool_ocb.cli.images import imaging
from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.rollouts import rolling
from nodepool_ocb.engine import hookcode
from nodepool_ocb.engine.world import World
from nodepool_ocb.images import builders, rules
from nodepool_ocb.model.records import BuildState, Json, State, UploadState
from nodepool_ocb.rollout.records import OVER, RolloutState
from nodepool_ocb.views import daemons, deployments, locks, nodes
from nodepool_ocb.views.rollouts.rows import RolloutRow
from nodepool_ocb.views.rollouts.tables import words


@click.command(cls=Verb)
def command() -> None:
    """Everything at a glance: what failed, what moves, who works."""
    from nodepool_ocb.store import quarantine, tree

    quarantined: dict[str, str] = {}
    with session.session() as opened:
        opened.sync()
        world = tree.load(opened)
        images = imaging.load(opened, quarantined)
        running = imaging.builders(opened, quarantined)
        quarantined |= world.unreadable | quarantine.of_rollouts(opened)
        quarantined |= quarantine.of_locks(opened, imaging.lock_paths(images))
        rollouts = rolling.rows(opened)
    document = glance(world, images, rollouts, running)
    document["quarantined"] = [{"path": path, "reason": reason} for path, reason in sorted(quarantined.items())]
    _print(document)


def glance(
    world: World, images: imaging.Images, rollouts: Sequence[RolloutRow], running: builders.Builders
) -> dict[str, Json]:
    """The document. Pure."""
    counts = Counter(vertex.record.state for vertex in world.vertices())
    failed = sorted((v for v in world.vertices() if v.record.state is State.ERROR), key=lambda each: each.name)
    rows = nodes.rows(world)
    return {
        "cluster": world.cluster.record.id if world.cluster else None,
        "noderoles": {str(state): counts[state] for state in nodes.WORST},
        "errors": [{"noderole": v.name, "since": v.record.since, "reason": v.record.reason} for v in failed],
        "nodes": {
            "all": len(rows),
            "not_alive": [_brief(row) for row in rows if not row.alive],
            "not_available": [_brief(row) for row in rows if not row.available],
        },
        "rollouts": glance_at_rollouts(rollouts),
        "images": {**glance_at_images(images), **glance_at_builders(images, running)},
        "hooks_without_code": [msgspec.to_builtins(each) for each in hookcode.all_missing(world)],
        "deployments": deployments.rows(world),
        "daemons": daemons.rows({**world.daemons, "builder": running}),
        "claims": locks.claims(world),
    }


def glance_at_rollouts(rows: Sequence[RolloutRow]) -> dict[str, Json]:
    """The newest of each deployment, as far as they failed or are under way. Pure."""
    newest: dict[str, RolloutRow] = {}
    for row in rows:
        newest.setdefault(row.deployment, row)
    lost = (RolloutState.FAILED, RolloutState.CANCELLED)
    return {
        "all": len(rows),
        "failed": [row for row in newest.values() if row.state in lost],
        "under_way": [row for row in newest.values() if row.state not in OVER],
    }


def glance_at_images(images: imaging.Images) -> dict[str, Json]:
    """How many builds and uploads there are of each state, and what failed or is being made. Pure."""
    rows = [imaging.build_row(view, build) for view in images.values() for build in view.builds]
    uploads = [upload for row in rows for upload in row["uploads"]]
    failures = [(name, rules.failures(view)) for name, view in sorted(images.items())]
    return {
        "all": len(images),
        "builds": dict(Counter(str(row["state"]) for row in rows)),
        "uploads": dict(Counter(str(upload["state"]) for upload in uploads)),
        "failing": [
            {
                "image": name,
                "failures": len(failed),
                "build": failed[-1].id,
                "since": failed[-1].record.state_time,
                "reason": failed[-1].record.reason,
            }
            for name, failed in failures
            if failed
        ],
        "failed_uploads": [
            {key: upload[key] for key in ("image", "build", "provider", "upload", "since", "reason")}
            for upload in uploads
            if upload["state"] == UploadState.FAILED
        ],
        "building": [
            {"image": view.name, "build": build.id, "builder": build.record.builder, "since": build.record.started}
            for view in images.values()
            for build in view.builds
            if imaging.stands(view, build) is BuildState.BUILDING
        ],
    }


def glance_at_builders(images: imaging.Images, running: builders.Builders) -> dict[str, Json]:
    """What no running builder looks after, and where they differ. Pure."""
    return {
        "stranded": [imaging.upload_row(each.image, each.upload) for each in builders.stranded(images, running)],
        "bereft": [
            {
                "image": each.image,
                "build": each.build.id,
                "builder": each.build.record.builder,
                "since": each.build.record.state_time,
            }
            for each in builders.bereft(images, running)
        ],
        "differing": [{"image": each.image, "builders": each.sentence} for each in builders.differences(running)],
    }


def _advice(images: dict[str, Json]) -> Iterator[str]:
    """What to do about what no running builder looks after."""
    first = {upload["provider"]: upload for upload in reversed(images["stranded"])}
    for provider, upload in sorted(first.items()):
        forget = f"nodepool-ocb upload delete {upload['image']} {upload['build']} {provider} --forget"
        yield f"no running builder has provider {provider}: configure it again, or forget what is there: {forget}"
    if images["bereft"]:
        yield "what only a builder that is not there could send is built anew after builder.gone_seconds: start it again, or wait"
    if images["differing"]:
        yield "builders are configured differently: give all of them one nodepool.yaml"


def _brief(row: nodes.NodeRow) -> dict[str, Json]:
    return {"name": row.name, "since": row.since, "reason": row.reason}


def _print(document: dict[str, Json]) -> None:
    machines, images, rollouts = document["nodes"], document["images"], document["rollouts"]
    under_way = list(map(words, rollouts["under_way"]))
    made = [{"of": of, "states": imaging.counted(images[of])} for of in ("builds", "uploads") if images[of]]
    counts = [{"state": state, "noderoles": count} for state, count in document["noderoles"].items()]
    sections = (
        (
            "DAEMONS THAT ARE NOT READY",
            [row for row in document["daemons"] if row.trouble],
            ("kind", "id", "trouble"),
        ),
        ("IN ERROR", document["errors"], ("noderole", "since", "reason")),
        ("ROLLOUTS THAT FAILED", rollouts["failed"], ("rollout", "state", "since", "reason")),
        ("IMAGES THAT FAIL", images["failing"], ("image", "failures", "build", "since", "reason")),
        ("UPLOADS THAT FAILED", images["failed_uploads"], ("image", "build", "provider", "since", "reason")),
        (
            "UPLOADS AT PROVIDERS THAT NO BUILDER HAS",
            images["stranded"],
            ("image", "build", "provider", "state", "external_id"),
        ),
        ("IMAGES WHOSE BUILDER IS NOT THERE", images["bereft"], ("image", "build", "builder", "since")),
        ("BUILDERS THAT DIFFER", images["differing"], ("image", "builders")),
        ("HOOKS WHOSE CODE NO ANNEALER HAS", document["hooks_without_code"], ("role", "hook", "waiting")),
        ("NODEROLES", counts, ("state", "noderoles")),
        ("ROLLOUTS UNDER WAY", under_way, ("rollout", "state", "since", "started", "by", "driver", "reason")),
        (f"NODES NOT ALIVE, OF {machines['all']}", machines["not_alive"], ("name", "since", "reason")),
        (f"NODES NOT AVAILABLE, OF {machines['all']}", machines["not_available"], ("name", "since", "reason")),
        (f"IMAGES: {images['all']}", made, ("of", "states")),
        ("IMAGES BEING BUILT", images["building"], ("image", "build", "builder", "since")),
        ("DEPLOYMENTS", document["deployments"], ("name", "parent", "state", "noderoles", "since")),
        ("DAEMONS", document["daemons"], ("kind", "id", "state", "host", "slots", "started")),
        ("AT WORK", document["claims"], ("node", "noderole", "owner", "since")),
        ("CANNOT BE READ", document["quarantined"], ("path", "reason")),
    )
    shown = [part for title, rows, columns in sections if rows for part in (title, output.table(rows, columns), "")]
    kinds = {daemon.kind for daemon in document["daemons"]}
    if "annealer" not in kinds and (machines["all"] or not images["all"]):
        output.say("no annealer is running: nothing moves; systemctl start nodepool-ocb-annealer")
    if "builder" not in kinds and images["all"]:
        output.say(imaging.NOBODY)
    if document["hooks_without_code"]:
        output.say(
            "no annealer has the code of a hook that waits: install the package of its role on an annealer's host"
        )
    for advice in _advice(images):
        output.say(advice)
    if document["quarantined"]:
        output.say(
            "what cannot be read holds back what depends on it: nodepool-ocb record show PATH; then mend or delete it"
        )
    output.thing(document, "status", *shown)
