"""The fourth scene: an image is asked for, built by one of two builders, uploaded, built again; the oldest build goes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from play import PATIENCE_SECONDS, Failed, Play

IMAGE: Final = "cell"
KEPT: Final = 2


class ImagesScene:
    """``acts`` are to be played in order."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._providers: list[str] = play.built["providers"]
        self.acts = (self.open, self.request, self.again)

    def open(self) -> None:
        self._play.title("Images")
        self._play.say(
            f"Two builders know an image, {IMAGE}: a root file system with a shell and sshd, packed by a small program."
            f" diskimage-builder and mmdebstrap are used in the same way. Builds are uploaded to {self._destinations()}."
        )
        self._play.say("No build was ready when the builders started, so one of them has built the image already:")
        self._until(1)
        self._play.run("image list")

    def request(self) -> None:
        self._play.say("The next build is due tomorrow. On request, any builder with a free slot builds the image now:")
        self._play.run(f'image build {IMAGE} --reason "a new shell" --wait --timeout {PATIENCE_SECONDS:.0f}')
        self._until(2)
        self._play.run(f"image log {IMAGE}")
        self._play.run(f"image show {IMAGE}")

    def again(self) -> None:
        self._play.say(f"A third build. {KEPT} builds are kept, with their uploads; older ones are deleted everywhere:")
        self._play.run(f"image build {IMAGE} --wait --timeout {PATIENCE_SECONDS:.0f}")
        self._until(KEPT)
        self._play.run("upload list")
        directory = Path(self._play.built["provider_directory"])
        self._play.type(f"ls {directory}")
        self._play.answer("  ".join(sorted(file.name for file in directory.glob("*.tar"))))

    def _destinations(self) -> str:
        engine = "docker, a private container engine" if self._play.built["engine"] else "docker"
        return " and to ".join({"local": "local, a directory", "docker": engine}[each] for each in self._providers)

    def _until(self, ready: int) -> None:
        """So many builds are ready and everywhere, and nothing else is left; Failed where that takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._stands(self._play.ask("image", "show", IMAGE), ready):
            if time.monotonic() > deadline:
                raise Failed(
                    f"{IMAGE} did not come to {ready} ready builds; nodepool-ocb image show {IMAGE} tells more"
                )
            time.sleep(0.2)

    def _stands(self, image: dict[str, Any], ready: int) -> bool:
        builds = image["builds"]
        uploads = [upload for build in builds for upload in build["uploads"]]
        return (
            len(builds) == ready
            and all(each["state"] == "ready" for each in [*builds, *uploads])
            and len(uploads) == ready * len(self._providers)
        )
