"""Images in a world where builders die, lose their locks and decide on old views: what must hold after every event."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from nodepool_ocb.images.rules import (
    BuildView,
    Carrier,
    Due,
    ImagePolicy,
    ImageView,
    NotDue,
    Paused,
    Requested,
    UploadView,
    due,
    due_uploads,
    fulfilled,
)
from nodepool_ocb.images.states import BuildEvent, UploadEvent, build_after, new_build, new_upload, upload_after
from nodepool_ocb.images.tidy import MarkBuild, MarkUpload, RemoveBuild, RemoveFiles, RemoveUpload, Step, Tidier, tidy
from nodepool_ocb.model.images import BuildRequest, BuildState, Pause, UploadState
from nodepool_ocb.model.records import LockOwner

DAY = 86400.0
BUILDERS = ("b1", "b2", "b3")
CARRIERS = {"p": Carrier("qcow2"), "q": Carrier("qcow2")}
WANTED = ImagePolicy(formats=("qcow2",), rebuild_age_seconds=DAY)

builders = st.sampled_from(BUILDERS)
numbers = st.integers(0, 1000)


class Storm(RuleBasedStateMachine):
    """One image, three builders, two providers. What the builders do under their locks is told here in a few lines."""

    retry_seconds = 60.0

    @initialize(keep=st.integers(1, 3))
    def begin(self, keep: int) -> None:
        self.now, self.zxid, self.keep = 1000.0 * DAY, 100, keep
        self.builds: dict[str, BuildView] = {}
        self.holder: str | None = None  # who has the image's lock
        self.locked: dict[tuple[str, str], str] = {}  # who has the lock of a build's uploads to a provider
        self.request: int | None = None
        self.paused: float | None = None
        self.alive = set(BUILDERS)
        self.working: dict[str, str] = {}  # builder → its build
        self.sending: dict[tuple[str, str], tuple[str, str]] = {}  # (build, provider) → builder, upload
        self.plans: list[tuple[Tidier, ImageView, list[Step]]] = []
        self.external: dict[str, str] = {}  # external id → provider
        self.given = 0
        self.made: set[str] = set()  # every build that was ready
        self.cut = False  # whether a session was ever lost while its builder lived on
        self.requests: Counter[int] = Counter()  # how many ready builds each request led to

    # -- the world --

    def write(self, view: BuildView, **fields: Any) -> None:
        record = replace(view.record, **fields)
        self.builds[view.id] = replace(self.builds[view.id], record=record, version=view.version + 1)

    def happens(self, view: BuildView, event: BuildEvent) -> None:
        """The event by the table; a builder resumes a build that others abandoned before it ends it."""
        record = view.record
        if event in (BuildEvent.SUCCEED, BuildEvent.FAIL) and record.state is not BuildState.BUILDING:
            record = build_after(record, BuildEvent.RESUME, self.now)
        record = build_after(record, event, self.now)
        self.builds[view.id] = replace(self.builds[view.id], record=record, version=view.version + 1)

    def put(self, upload: UploadView) -> None:
        build = self.builds[upload.build]
        others = [each for each in build.uploads if (each.provider, each.id) != (upload.provider, upload.id)]
        uploads = tuple(sorted([*others, upload], key=lambda each: (each.provider, each.id)))
        self.builds[upload.build] = replace(build, uploads=uploads)

    def view(self) -> ImageView:
        def seen(upload: UploadView) -> UploadView:
            return replace(upload, locked=(upload.build, upload.provider) in self.locked)

        builds = [replace(build, uploads=tuple(map(seen, build.uploads))) for _, build in sorted(self.builds.items())]
        return ImageView(
            "debian",
            tuple(builds),
            LockOwner(daemon=self.holder, host="h", pid=1, purpose="build", since=0.0) if self.holder else None,
            None if self.request is None else Requested(BuildRequest(), 0, self.request),
            None if self.paused is None else Paused(Pause(until=self.paused), 0),
        )

    def tidier(self, builder: str) -> Tidier:
        carriers = frozenset(CARRIERS)
        working = frozenset({self.working[builder]} if builder in self.working else ())
        return Tidier(builder, working, True, carriers, carriers, frozenset(self.alive), self.keep, DAY)

    def number(self) -> str:
        self.given += 1
        return f"{self.given:010}"

    # -- builders at work --

    @rule(builder=builders)
    def build_begins(self, builder: str) -> None:
        if builder not in self.alive or builder in self.working or self.holder is not None:
            return
        if not isinstance(due(self.view(), WANTED, self.now, self.retry_seconds), Due):
            return
        id = self.number()
        self.holder, self.working[builder] = builder, id
        record = new_build(
            BuildEvent.BEGIN, self.now, builder=builder, builder_id=builder, filename=f"debian-{id}",
            formats=("qcow2",), request=self.request or 0,
        )  # fmt: skip
        self.builds[id] = BuildView(id, record, 0)

    @rule(builder=builders, well=st.booleans())
    def build_ends(self, builder: str, well: bool) -> None:
        """As the builder does it: the lock is taken again, and what others thought is set right, if nothing is newer."""
        id = self.working.get(builder)
        if id is None:
            return
        build, newer = self.builds.get(id), [b.record.state for name, b in self.builds.items() if name > id]
        if self.holder is None:
            self.holder = builder
        ours = self.holder == builder
        if build is None or build.record.state is BuildState.DELETE or BuildState.READY in newer or not ours:
            if build is not None and not ours and BuildState.BUILDING not in newer and BuildState.READY not in newer:
                return  # somebody else holds the lock and has not begun: wait
            self.builds.pop(id, None)
        elif well:
            if fulfilled(self.view(), build.record):
                self.request = None
            if build.record.request:
                self.requests[build.record.request] += 1
            self.made.add(id)
            self.happens(build, BuildEvent.SUCCEED)
        else:
            self.happens(build, BuildEvent.FAIL)
        del self.working[builder]
        if ours:
            self.holder = None

    @rule(builder=builders)
    def upload_begins(self, builder: str) -> None:
        if builder not in self.alive:
            return
        found, _ = due_uploads(self.view(), CARRIERS, builder, self.now, self.retry_seconds)
        for each in found[:1]:
            key = each.build.id, each.provider
            if key in self.locked or key in self.sending:
                continue
            attempt = each.upload.record.attempt + 1 if each.upload else 1
            before = each.upload.record if each.upload else None
            record = new_upload(UploadEvent.SEND, self.now, before, format="qcow2", builder=builder, attempt=attempt)
            id, version = (each.upload.id, each.upload.version + 1) if each.upload else (self.number(), 0)
            self.put(UploadView(*key, id, record, version, True))
            self.locked[key], self.sending[key] = builder, (builder, id)

    @precondition(lambda self: self.sending)
    @rule(which=numbers, well=st.booleans())
    def upload_ends(self, which: int, well: bool) -> None:
        key = sorted(self.sending)[which % len(self.sending)]
        builder, id = self.sending.pop(key)
        build = self.builds.get(key[0])
        upload = next((u for u in build.uploads if (u.provider, u.id) == (key[1], id)), None) if build else None
        if upload is not None:
            external = f"e{id}-{upload.version}" if well else None
            if external:
                self.external[external] = key[1]
            event = UploadEvent.SUCCEED if well else UploadEvent.FAIL
            record = upload_after(upload.record, event, self.now, external_id=external)
            self.put(replace(upload, record=record, version=upload.version + 1))
        if self.locked.get(key) == builder:
            del self.locked[key]

    @rule(builder=builders, sent=st.integers(0, 2), ended=st.booleans())
    def a_day_goes_well(self, builder: str, sent: int, ended: bool) -> None:
        """What would take chance very long: the next build is due, made, and sent to some of the providers."""
        self.alive.add(builder)
        self.now += 1.2 * DAY
        self.build_begins(builder)
        self.build_ends(builder, well=True)
        for _ in range(sent):
            self.upload_begins(builder)
            if ended and self.sending:
                self.upload_ends(len(self.sending) - 1, well=True)

    # -- what goes wrong --

    @rule(builder=builders)
    def builder_dies(self, builder: str) -> None:
        self.alive.discard(builder)
        self.working.pop(builder, None)
        self.sending = {key: each for key, each in self.sending.items() if each[0] != builder}
        self._session_ends(builder)

    @rule(builder=builders)
    def builder_comes_back(self, builder: str) -> None:
        self.alive.add(builder)

    @rule(builder=builders)
    def session_is_lost(self, builder: str) -> None:
        """The builder goes on working, without its locks."""
        self.cut = self.cut or builder in self.working
        self._session_ends(builder)

    def _session_ends(self, builder: str) -> None:
        self.holder = None if self.holder == builder else self.holder
        self.locked = {key: each for key, each in self.locked.items() if each != builder}

    # -- what people do, and time --

    @precondition(lambda self: self.request is None)
    @rule()
    def build_is_requested(self) -> None:
        self.zxid += 1
        self.request = self.zxid

    @rule(seconds=st.sampled_from([None, 60.0, DAY]))
    def image_is_paused(self, seconds: float | None) -> None:
        self.paused = None if seconds is None else self.now + seconds

    @rule(seconds=st.sampled_from([1.0, 60.0, 3600.0, DAY, 1.2 * DAY]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    # -- tidying: decided on a view, done step by step, perhaps much later, in any order, or not at all --

    @rule(deciders=st.sets(builders, min_size=1))
    def tidiers_decide(self, deciders: set[str]) -> None:
        view = self.view()
        for builder in deciders & self.alive:
            tidier = self.tidier(builder)
            steps = list(tidy(view, tidier, self.now))
            assert steps == list(tidy(view, tidier, self.now))
            for step in steps:
                self._decent(step, tidier)
            self.plans.append((tidier, view, steps))

    def _decent(self, step: Step, tidier: Tidier) -> None:
        """On the world as it is, no step touches what somebody works on."""
        match step:
            case MarkBuild(build, event, _):
                holder_works = self.holder is not None and self.working.get(self.holder) == build.id
                assert not (event is BuildEvent.ABANDON and holder_works)
            case RemoveBuild(build):
                assert build.id not in tidier.working
                assert not any(self.working.get(b) == build.id and b in tidier.living for b in BUILDERS)
                assert build.bare
            case RemoveFiles(build):
                assert build.record.builder_id == tidier.builder_id
                assert build.record.state is BuildState.DELETE
                assert not any(each[0] == build.id for each in self.sending)
            case MarkUpload(upload, _, _) | RemoveUpload(upload):
                assert (upload.build, upload.provider) not in self.locked

    @precondition(lambda self: self.plans)
    @rule(which=numbers, order=st.randoms(use_true_random=False), count=st.integers(1, 8))
    def steps_are_done(self, which: int, order: Any, count: int) -> None:
        _, _, steps = self.plans.pop(which % len(self.plans))
        order.shuffle(steps)
        for step in steps[:count]:
            self._do(step)

    @rule(order=st.randoms(use_true_random=False), count=st.integers(1, 8))
    def all_tidy_at_once(self, order: Any, count: int) -> None:
        self.tidiers_decide(set(BUILDERS))
        while self.plans:
            self.steps_are_done(0, order, count)

    @precondition(lambda self: self.plans)
    @rule()
    def tidiers_die(self) -> None:
        self.plans.clear()

    def _do(self, step: Step) -> None:
        """One step, if the record is still as it was when it was decided."""
        build = self.builds.get(
            step.build.id if isinstance(step, MarkBuild | RemoveBuild | RemoveFiles) else step.upload.build
        )
        match step:
            case MarkBuild(seen, event, _) if build and build.version == seen.version:
                self.happens(build, event)
            case RemoveBuild(seen) if build and build.version == seen.version:
                assert build.uploads == ()
                del self.builds[seen.id]
            case RemoveFiles(seen) if build and build.version == seen.version and build.spent:
                self.write(build, removed=build.record.formats)
            case MarkUpload(seen, event, _) if build:
                upload = self._same(build, seen)
                if upload is not None:
                    if upload.record.state is UploadState.READY:
                        self._may_go(upload)
                    record = upload_after(upload.record, event, self.now)
                    self.put(replace(upload, record=record, version=upload.version + 1))
            case RemoveUpload(seen) if build and (seen.build, seen.provider) not in self.locked:
                upload = self._same(build, seen)
                if upload is not None:
                    self.external.pop(upload.record.external_id or "", None)
                    left = tuple(u for u in build.uploads if u != upload)
                    self.builds[build.id] = replace(build, uploads=left)

    @staticmethod
    def _same(build: BuildView, seen: UploadView) -> UploadView | None:
        key = seen.provider, seen.id, seen.version
        return next((u for u in build.uploads if (u.provider, u.id, u.version) == key), None)

    def _may_go(self, upload: UploadView) -> None:
        """A ready upload goes only where ``keep`` newer ones of its provider are ready."""
        newer = [
            u
            for build in self.builds.values()
            for u in build.uploads
            if u.provider == upload.provider
            and u.record.state is UploadState.READY
            and (u.build, u.id) > (upload.build, upload.id)
        ]
        assert len(newer) >= self.keep, (upload, newer)

    # -- what must hold --

    @invariant()
    def the_newest_builds_are_there(self) -> None:
        ready = {id for id, build in self.builds.items() if build.record.state is BuildState.READY}
        assert ready >= set(sorted(self.made)[-self.keep :])

    @invariant()
    def nothing_at_a_provider_is_forgotten(self) -> None:
        known = {u.record.external_id for build in self.builds.values() for u in build.uploads}
        assert set(self.external) <= known

    @invariant()
    def no_request_is_answered_twice(self) -> None:
        if not self.cut:
            assert all(count == 1 for count in self.requests.values()), self.requests

    def teardown(self) -> None:
        """After the faults stop, a few rounds bring it to rest, and a request that stands is answered."""
        if not hasattr(self, "plans"):
            return
        for builder in BUILDERS:
            self.builder_dies(builder)
        self.alive, self.paused = set(BUILDERS), None
        self._tidy_to_rest()
        self.now += DAY  # what is kept to be read goes; back-offs end
        self._tidy_to_rest()
        asked = self.request
        assert isinstance(due(self.view(), WANTED, self.now, self.retry_seconds), Due | NotDue)
        if asked is not None:
            self.build_begins("b1")
            self.build_ends("b1", well=True)
            assert self.request is None
            assert self.requests[asked] >= 1
            assert isinstance(due(self.view(), WANTED, self.now, self.retry_seconds), NotDue)
        self._tidy_to_rest()
        for build in self.builds.values():
            assert build.record.state is BuildState.READY
            assert all(upload.record.state is not UploadState.UPLOADING for upload in build.uploads)
        bare = [build for build in self.builds.values() if build.bare]
        assert len(bare) <= self.keep
        for provider in CARRIERS:
            assert len([each for each in self.external.values() if each == provider]) <= self.keep

    def _tidy_to_rest(self) -> None:
        for _ in range(6):
            view = self.view()
            steps = [step for builder in BUILDERS for step in tidy(view, self.tidier(builder), self.now)]
            if not steps:
                return
            for step in steps:
                self._do(step)
        raise AssertionError(f"there is still something to be done: {steps}")


Storm.TestCase.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
TestStorm = Storm.TestCase


class LongStorm(Storm):
    """The same, many times as long."""


LongStorm.TestCase.settings = settings(
    max_examples=5000, stateful_step_count=120, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLongStorm = pytest.mark.long(LongStorm.TestCase)
