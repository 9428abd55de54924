"""Everything at a glance: what is counted, what comes first, and what people should do."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.engine.world import World
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.journal import Webhook, WebhookFailure
from nodepool_ocb.model.records import Daemon, ImageSettings
from nodepool_ocb.rollout.records import RolloutState
from nodepool_ocb.views import sections, status
from nodepool_ocb.views.rollouts.rows import row
from nodepool_ocb.views.status import Idle, Overview, overview
from nodepool_ocb.views.view import plain
from tests.views.small import BASE, N1, N2, small
from tests.views.small_rollouts import rollout_of
from tests.views.test_image_views import build, jammy, upload

BUILDER = Daemon(
    host="h2", pid=1, version="1", started=1.0, providers=("east",), images={"jammy": ImageSettings(formats=("raw",))}
)


def seen(world: World | None = None, **images: ImageView) -> Overview:
    return overview(
        world or small(), images, [], {"i": BUILDER} if images else {}, {"/ocb/roles/x": "garbage"}, now=1.0
    )


def test_an_overview_counts_every_state_and_names_what_is_wrong() -> None:
    shown = plain(seen())
    assert list(shown) == [
        *(
            "cluster",
            "aside",
            "noderoles",
            "errors",
            "outdated",
            "drift",
            "strangers",
            "nodes",
            "rollouts",
            "task_runs",
            "images",
        ),
        "pools",
        "hooks_without_code",
        *("deployments", "daemons", "claims", "overdue", "webhook", "quarantined", "unlooked"),
    ]
    assert shown["noderoles"] == {"ERROR": 1, "TRANSITION": 0, "TODO": 0, "BLOCKED": 2, "PROPOSED": 0, "ACTIVE": 0}
    assert shown["errors"] == [{"noderole": BASE, "since": 1.0, "reason": "disk full"}]
    assert shown["nodes"]["all"] == 2
    assert seen().nodes.not_alive == (Idle(N1, 3.0, "connect: refused"),)
    [closed] = seen().nodes.not_available
    assert (closed.name, closed.reason) == (
        N2,
        f"annealers may not work on it; to let them: nodepool-ocb node available {N2}",
    )
    assert shown["quarantined"] == [{"path": "/ocb/roles/x", "reason": "garbage"}]


def test_of_each_deployment_only_the_newest_rollout_is_named() -> None:
    head = rollout_of().head
    states = (
        ("lab", "2", RolloutState.RUNNING),
        ("lab", "1", RolloutState.FAILED),
        ("web", "5", RolloutState.CANCELLED),
    )
    rows = [row(Key(deployment, id), replace(head, state=state), None, {}) for deployment, id, state in states]
    found = overview(small(), {}, rows, {}, {}, now=1.0).rollouts
    assert found.all == 3
    assert [each.rollout for each in found.under_way] == ["lab/2"]
    assert found.failed == ()
    assert [each.rollout for each in found.cancelled] == ["web/5"]


def test_images_are_counted_as_they_stand_and_what_fails_or_moves_is_named() -> None:
    failed = ImageView("noble", (build("1", BuildState.FAILED, reason="no space"), build("2", BuildState.FAILED)))
    found = plain(seen(jammy=jammy(), noble=failed))["images"]
    assert list(found) == [
        *(
            "all",
            "builds",
            "uploads",
            "failing",
            "failed_uploads",
            "building",
            "stranded",
            "bereft",
            "differing",
            "unbuildable",
        )
    ]
    assert (found["all"], found["builds"]) == (2, {"failed": 3, "ready": 1, "building": 1})
    assert found["uploads"] == {"ready": 1, "failed": 1}
    assert found["failing"] == [{"image": "noble", "failures": 2, "build": "2", "since": 5.0, "reason": None}]
    assert [each["upload"] for each in found["failed_uploads"]] == ["1"]
    assert found["building"] == [{"image": "jammy", "build": "3", "builder": "h2", "since": 0.0}]
    assert [each["provider"] for each in found["stranded"]] == ["west", "west"]


def test_a_ready_build_whose_builder_is_not_there_is_bereft() -> None:
    view = ImageView("jammy", (build("2", BuildState.READY, upload(UploadState.READY), builder_id="gone"),))
    assert [(each.image, each.build, each.builder) for each in seen(jammy=view).images.bereft] == [("jammy", "2", "h2")]
    assert status.overview(small(), {"jammy": view}, [], {}, {}, now=1.0).images.bereft == (), (
        "without builders nothing is known"
    )


def test_sections_without_rows_are_left_out_and_errors_come_first() -> None:
    world = small()
    world.daemons["annealer"]["a1"] = replace(world.daemons["annealer"]["a1"], trouble="its disk is full")
    titles = [section.title for section in sections.sections(seen(world, jammy=jammy()))]
    assert titles == [
        "DAEMONS THAT ARE NOT READY",
        "IN ERROR",
        "UPLOADS THAT FAILED",
        "UPLOADS AT PROVIDERS THAT NO BUILDER HAS",
        "NODEROLES",
        "NODES NOT ALIVE, OF 2",
        "NODES NOT AVAILABLE, OF 2",
        "IMAGES: 1",
        "IMAGES BEING BUILT",
        "DEPLOYMENTS",
        "DAEMONS",
        "AT WORK",
        "CANNOT BE READ",
    ]
    for section in sections.sections(seen(world, jammy=jammy())):
        assert all(set(section.columns) <= set(plain(each)) for each in section.rows), section.title


def test_notes_name_who_is_missing_and_what_to_do() -> None:
    empty = overview(World(), {}, [], {}, {}, now=1.0)
    assert list(sections.notes(empty)) == [
        "no annealer is running: nothing moves;"
        " systemctl start nodepool-ocb-annealer, or without systemd: nodepool-ocb-annealer"
    ]
    stranded = list(sections.notes(seen(jammy=jammy())))
    assert stranded[0].startswith("no running builder has provider west: configure it again")
    assert stranded[0].endswith("nodepool-ocb upload delete jammy 2 west --forget")
    assert stranded[-1].startswith("records that cannot be read hold back all that depend on them")
    alone = overview(small(), {"jammy": jammy()}, [], {}, {}, now=1.0)
    assert list(sections.notes(alone)) == [
        "no builder is running: nothing is built or uploaded;"
        " systemctl start nodepool-ocb-builder, or without systemd: nodepool-ocb-builder"
    ]


def test_a_webhook_that_fails_is_shown_as_long_as_somebody_tries_it() -> None:
    failing = WebhookFailure(since=10.0, at=100.0, host="h1", reason="answers 500")

    def shown(webhook: Webhook | None, now: float) -> Overview:
        return overview(small(), {}, [], {}, {}, webhook=webhook, now=now)

    noted = Webhook(delivered=7, at=5.0, failing=failing)
    found = shown(noted, 100.0 + 1700.0)
    assert found.webhook == failing
    (section,) = [each for each in sections.sections(found) if each.title == "THE WEBHOOK FAILS"]
    assert plain(section.rows[0]) == {"since": 10.0, "at": 100.0, "host": "h1", "reason": "answers 500"}
    for webhook, now in ((noted, 100.0 + 1900.0), (replace(noted, failing=None), 100.0), (None, 100.0)):
        assert shown(webhook, now).webhook is None
