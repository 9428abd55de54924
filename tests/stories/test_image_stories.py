"""Stories of images: images.story beside this module; its first lines say how its stories are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Conflict
from nodepool_ocb.images.rules import (
    BuildView,
    Carrier,
    Due,
    ImagePolicy,
    ImageView,
    NotDue,
    UploadView,
    due,
    due_uploads,
)
from nodepool_ocb.images.states import BuildEvent, UploadEvent, build_after, new_build, new_upload, upload_after
from nodepool_ocb.images.tidy import MarkBuild, MarkUpload, RemoveBuild, RemoveFiles, RemoveUpload, Step, Tidier, tidy
from nodepool_ocb.model.images import Build, Upload
from nodepool_ocb.model.records import LockOwner
from tests.stories.reading import Story, stories

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
UNITS: Final = {"minutes": MINUTE, "hours": HOUR, "days": DAY}
ME: Final = "b1"
OWNER: Final = LockOwner(daemon=ME, host="h1", pid=1, purpose="build", since=0.0)
CARRIERS: Final = {name: Carrier("qcow2") for name in ("cloud", "edge")}
WANTED: Final = ImagePolicy(("qcow2",), rebuild_age_seconds=DAY, carriers=CARRIERS, builder_id=ME)
ROUNDS: Final = 10  # of tidying, at most

Key = tuple[str, str]  # build and provider


class Image:
    """An image, its builder and the clock."""

    def __init__(self) -> None:
        self.now = 100 * DAY
        self.builds: dict[str, Build] = {}
        self.uploads: dict[Key, Upload] = {}
        self.building: str | None = None  # the build that its builder works on
        self.locked = False  # the lock of the builds
        self.sending: set[Key] = set()  # the uploads with a lock
        self.given = 0

    def takes(self, text: str) -> None:
        """Carry out a line of a story."""
        words = text.removesuffix("-> refused").split()
        refused = text.endswith("-> refused")
        match words:
            case ["not", "due", *reason]:
                found = due(self.view(), WANTED, self.now)
                assert isinstance(found, NotDue)
                assert " ".join(reason) in found.reason
            case ["pass", count, unit]:
                self.now += int(count) * UNITS[unit]
            case ["tidy"]:
                self._tidies()
            case ["die" | "lose" as fault]:
                self.locked, self.building = False, self.building if fault == "lose" else None
                self.sending.clear()
            case ["begin"]:
                assert isinstance(due(self.view(), WANTED, self.now), Due)
                self._begins()
            case [event, name] if event.upper() in {*BuildEvent, *UploadEvent}:
                try:
                    self._happens(event.upper(), name)
                except Conflict:
                    assert refused, f"{event} {name} is refused"
                    return
                assert not refused, f"{event} {name} is not refused"
            case _:
                self._expects(text)

    def _begins(self) -> None:
        self.given += 1
        fields = {"builder": "h1", "builder_id": ME, "filename": f"image-{self.given}", "formats": ("qcow2",)}
        self.builds[str(self.given)] = new_build(BuildEvent.BEGIN, self.now, **fields)
        self.building, self.locked = str(self.given), True

    def _happens(self, event: str, name: str) -> None:
        build, _, provider = name.partition("@")
        if provider:
            self._happens_to_upload(UploadEvent(event), (build, provider))
        elif event.startswith("IMPORT"):
            fields = {"builder": "nodepool", "builder_id": ME, "filename": name, "formats": ("qcow2",)}
            self.builds[name] = new_build(BuildEvent(event), self.now, **fields)
        else:
            self.builds[name] = build_after(self.builds[name], BuildEvent(event), self.now)
            if event in (BuildEvent.SUCCEED, BuildEvent.FAIL):
                self.building, self.locked = None, False
            elif event == BuildEvent.RESUME:
                self.building, self.locked = name, True

    def _happens_to_upload(self, event: UploadEvent, key: Key) -> None:
        before = self.uploads.get(key)
        if event is UploadEvent.IMPORT_READY:
            self.uploads[key] = new_upload(event, self.now, before, format="qcow2", external_id="e0")
        elif event is UploadEvent.SEND:
            found, _ = due_uploads(self.view(), CARRIERS, ME, self.now, MINUTE)
            if all((each.build.id, each.provider) != (_id(key[0]), key[1]) for each in found):
                raise Conflict("it is not due")
            attempt = before.attempt + 1 if before else 1
            self.uploads[key] = new_upload(event, self.now, before, format="qcow2", builder="h1", attempt=attempt)
            self.sending.add(key)
        else:
            fields = {"external_id": f"e{key[0]}"} if event is UploadEvent.SUCCEED else {}
            self.uploads[key] = upload_after(self.uploads[key], event, self.now, **fields)
            if event is not UploadEvent.DELETE:
                self.sending.discard(key)

    def _tidies(self) -> None:
        working = frozenset({_id(self.building)} if self.building else ())
        carriers = frozenset(CARRIERS)
        tidier = Tidier(ME, working, carriers=carriers, providers=carriers, living=frozenset({ME}))
        for _ in range(ROUNDS):
            steps = list(tidy(self.view(), tidier, self.now))
            if not steps:
                return
            self._does(steps[0])
        raise AssertionError("it is never tidy")

    def _does(self, step: Step) -> None:
        match step:
            case MarkBuild(build, event):
                self.builds[_number(build.id)] = build_after(build.record, event, self.now)
            case MarkUpload(upload, event):
                self.uploads[_key(upload)] = upload_after(upload.record, event, self.now)
            case RemoveBuild(build):
                del self.builds[_number(build.id)]
            case RemoveUpload(upload):
                del self.uploads[_key(upload)]
            case RemoveFiles(build):
                self.builds[_number(build.id)] = replace(build.record, removed=build.record.formats)

    def _expects(self, text: str) -> None:
        for part in text.split(","):
            name, state, *fields = part.split()
            build, _, provider = name.partition("@")
            record = self.uploads.get((build, provider)) if provider else self.builds.get(build)
            assert (record.state if record else "gone") == state, f"{name} is {record.state if record else 'gone'}"
            for field, value in (word.split("=") for word in fields):
                assert str(getattr(record, field)) == value, f"{field} of {name} is {getattr(record, field)}"

    def view(self) -> ImageView:
        """The image as a builder reads it."""
        builds = tuple(BuildView(_id(name), record, 0, self._uploads(name)) for name, record in self.builds.items())
        return ImageView("image", builds, OWNER if self.locked else None)

    def _uploads(self, build: str) -> tuple[UploadView, ...]:
        found: Mapping[Key, Upload] = {key: each for key, each in self.uploads.items() if key[0] == build}
        return tuple(
            UploadView(_id(build), provider, "0000000000", record, 0, (build, provider) in self.sending)
            for (_, provider), record in found.items()
        )


def _id(number: str) -> str:
    return number.zfill(10)


def _number(id: str) -> str:
    return id.lstrip("0")


def _key(upload: UploadView) -> Key:
    return _number(upload.build), upload.provider


@pytest.mark.parametrize("story", stories("images.story"), ids=lambda story: story.title)
def test_images(story: Story) -> None:
    image = Image()
    for line in story.lines:
        with line.shown() as text:
            image.takes(text)
