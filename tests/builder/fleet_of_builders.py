"""Builders as real processes against a real server, with images that a small shell script makes.

A fleet ends everything that it starts; its chroot and its folder are its own. What a build did it writes itself: each
leaves a line in ``history`` when it begins and when it has written its image.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Literal

import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.images.rules import BuildView, ImageView
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildRequest, BuildState, UploadState
from nodepool_ocb.model.records import Create, Daemon, Json, Set
from nodepool_ocb.store import clusters, images, nodepool11
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.processes import BUILDER, CutDaemon
from nodepool_ocb.testing.zookeeper.ensemble import Ensemble
from nodepool_ocb.testing.zookeeper.server import Server

SESSION_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 30.0

#: Writes every format that is asked for; waits as long, or fails, as the image's env-vars say.
SCRIPT: Final = """
echo "begin $NODEPOOL_OCB_IMAGE $NODEPOOL_OCB_BUILD $$" >> "$HISTORY"
echo "building $NODEPOOL_OCB_IMAGE"
[ ! -e "$FAIL" ] || { echo "it fails, as it was asked to"; exit 3; }
sleep "${SECONDS_TO_BUILD:-0}"
for format in $NODEPOOL_OCB_FORMATS; do
    name=NODEPOOL_OCB_OUTPUT_$(echo "$format" | tr a-z A-Z)
    eval "output=\\$$name"
    echo "$NODEPOOL_OCB_IMAGE $NODEPOOL_OCB_BUILD $format" > "$output"
done
mkdir -p "$NODEPOOL_OCB_MANIFEST" && echo shell > "$NODEPOOL_OCB_MANIFEST/packages"
echo "end $NODEPOOL_OCB_IMAGE $NODEPOOL_OCB_BUILD" >> "$HISTORY"
"""


class Builder(CutDaemon):
    """A builder with an images-dir of its own."""

    @property
    def images(self) -> Path:
        return self.config.parent / "images"

    @property
    def logs(self) -> Path:
        """Of its builds, where those are apart."""
        return self.config.parent / "logs-of-builds"

    @property
    def id(self) -> str:
        return (self.images / "builder_id.txt").read_text().strip()

    def files(self) -> list[str]:
        """What lies in its images-dir, without what belongs to the builder itself."""
        own = {"builder_id.txt", "cluster_id.txt", ".lock", "builds"}
        return sorted(path.name for path in self.images.iterdir() if path.name not in own)


class BuilderFleet:
    """Builders ``b0``, ``b1``, ... and the directories that their uploads go to; ``session`` is the test's own."""

    def __init__(
        self, server: Server | Ensemble, chroot: str, folder: Path, layout: Literal["native", "nodepool"] = "native"
    ) -> None:
        self.server, self.folder, self.chroot, self._layout = server, folder, chroot, layout
        self.builders: list[Builder] = []
        self.session = Session(self.settings(30.0), tree=nodepool11.tree(layout))
        self.history_file = folder / "history"
        self.fail = folder / "fail"  # while it exists, builds fail

    def __enter__(self) -> BuilderFleet:
        self.session.start()
        clusters.bootstrap(self.session)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for builder in self.builders:
            builder.discard(10.0)
            print(f"-- {builder.config.parent.name} --\n{builder.said}")  # pytest shows it where the test fails
        self.session.close()

    def settings(self, session_seconds: float) -> ZooKeeperSettings:
        """For a session that nobody disturbs."""
        return ZooKeeperSettings(hosts=self.server.hosts + self.chroot, session_timeout_seconds=session_seconds)

    def settings_of_builders(self, session_seconds: float) -> ZooKeeperSettings:
        """``hosts`` is the chroot alone."""
        return ZooKeeperSettings(hosts=self.chroot, session_timeout_seconds=session_seconds)

    # -- builders --

    def registration(self, builder: Builder) -> Daemon:
        """The record that the builder wrote of itself."""
        znode = self.session.get(paths.daemon("builder", builder.id))
        assert znode is not None
        return codec.decode(Daemon, znode)

    def image(
        self, name: str, seconds: float = 0.0, formats: Sequence[str] = ("raw",), **keys: Json
    ) -> dict[str, Json]:
        """A diskimage that the script builds in so many seconds; ``keys`` are more of its keys."""
        env = {"HISTORY": str(self.history_file), "FAIL": str(self.fail), "SECONDS_TO_BUILD": str(seconds)}
        return {
            "name": name,
            "backend": "command",
            "options": {"argv": ["/bin/sh", "-c", SCRIPT]},
            "formats": list(formats),
            "env-vars": env,
            **{key.replace("_", "-"): value for key, value in keys.items()},
        }

    def provider(self, name: str, *carried: str, **keys: Json) -> dict[str, Json]:
        """A directory that images are uploaded to."""
        directory = str(self.folder / "providers" / name)
        diskimages = [{"name": image} for image in carried]
        return {"name": name, "driver": "local", "directory": directory, "diskimages": diskimages, **keys}

    def builder(
        self,
        *diskimages: Mapping[str, Json],
        providers: Sequence[Mapping[str, Json]] = (),
        session_seconds: float = SESSION_SECONDS,
        logs_apart: bool = False,
        launcher: Collection[str] = BUILDER,
        **settings: Json,
    ) -> Builder:
        """One more, not started yet; ``settings`` are of its section ``builder``; ``logs_apart``: not in its images-dir."""
        folder = self.folder / f"b{len(self.builders)}"
        folder.mkdir()
        zookeeper = self.settings_of_builders(session_seconds)
        quick = {"retry_seconds": 0.2, "drain_seconds": 1.0, "cleanup_seconds": 1.0, "sweep_seconds": 5.0,
                 "free_bytes": 0, "orphan_grace_seconds": 1.0}  # fmt: skip
        sections = {"builder": quick | settings, "layout": self._layout}
        builder = Builder(self.server.ports, zookeeper, folder, sections, launcher)
        self.builders.append(builder)
        apart = {"build-log-dir": str(builder.logs)} if logs_apart else {}
        self.configure(builder, *diskimages, providers=providers, **apart)
        return builder

    @staticmethod
    def configure(
        builder: Builder, *diskimages: Mapping[str, Json], providers: Sequence[Mapping[str, Json]] = (), **keys: Json
    ) -> None:
        """Write its nodepool.yaml; a running one takes it over when it is told to reload."""
        document = {"images-dir": str(builder.images), "diskimages": [*diskimages], "providers": [*providers], **keys}
        (builder.config.parent / "nodepool.yaml").write_text(yaml.safe_dump(document))

    # -- what is there --

    def view(self, image: str) -> ImageView:
        """The image as it is now."""
        self.session.sync()
        found = images.read(self.session, [image]).get(image)
        return found or ImageView(image)

    def builds(self, image: str, *states: BuildState) -> list[BuildView]:
        """Its builds in these states, or all."""
        return [build for build in self.view(image).builds if not states or build.record.state in states]

    def uploads(self, image: str, *states: UploadState) -> list[tuple[str, str]]:
        """(build, provider) of its uploads in these states, or all."""
        return [
            (build.id, upload.provider)
            for build in self.builds(image)
            for upload in build.uploads
            if not states or upload.record.state in states
        ]

    def history(self, what: str = "begin") -> list[str]:
        """The ids of the builds that began (or ended), with their images: "jammy 0000000001"."""
        lines = self.history_file.read_text().splitlines() if self.history_file.exists() else []
        return [" ".join(line.split()[1:3]) for line in lines if line.split()[0] == what]

    def provided(self, provider: str) -> list[str]:
        """The images that lie in a provider's directory."""
        folder = self.folder / "providers" / provider
        return sorted(path.name for path in folder.glob("*") if path.suffix != ".json") if folder.exists() else []

    # -- what is asked --

    def request(self, image: str) -> None:
        """Ask for a build, off schedule."""
        path = paths.request_build(image)
        self.session.ensure(paths.builds(image))
        record = BuildRequest(by="test", at=time.time())
        znode = self.session.get(path)
        self.session.commit([Create(path, record) if znode is None else Set(path, record, znode.version)])

    def until(self, holds: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        looked = time.monotonic()
        deadline = looked + seconds
        while not holds():
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
            looked = rest(looked)

    def until_ready(self, image: str, count: int = 1, seconds: float = PATIENCE_SECONDS) -> list[BuildView]:
        """Wait until so many builds of the image are ready; gives them, newest first."""
        self.until(lambda: len(self.view(image).ready()) >= count, f"{count} builds of {image} are ready", seconds)
        return list(self.view(image).ready())


def spoiled(builders: BuilderFleet) -> list[str]:
    """Ready builds whose files are not there, or not what their records and checksum files say."""
    found = []
    folders = {
        builder.id: builder.images for builder in builders.builders if (builder.images / "builder_id.txt").exists()
    }
    for image in images.names(builders.session):
        for build in builders.view(image).ready():
            record = build.record
            for format in set(record.formats) - set(record.removed):
                file = folders[record.builder_id] / f"{record.filename}.{format}"
                sum_ = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "no file"
                noted = file.with_name(file.name + ".sha256")
                said = noted.read_text().split()[0] if noted.exists() else "no checksum"
                if not sum_ == said == record.checksums[format]["sha256"]:
                    found.append(f"{file.name}: {sum_}, {said}, {record.checksums.get(format)}")
    return found
