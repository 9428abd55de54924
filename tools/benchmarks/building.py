"""The cost of an idle builder, and the time of uploads that cost nothing themselves.

The floor of an upload is the same file copied and its checksum taken, without any record of it.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks import ensemble
from benchmarks.figure import Figure, Plan
from nodepool_ocb.testing.processes import BUILDER, DaemonProcess, await_that
from nodepool_ocb.testing.zookeeper import counters
from nodepool_ocb.testing.zookeeper.server import Server, init

IMAGES: Final = 30
PROVIDERS: Final = 4
WORKERS: Final = 4
SECONDS: Final = 70.0  # of doing nothing: two sweeps and more
PATIENCE_SECONDS: Final = 300.0
UPLOADED: Final = 'nodepool_ocb_uploads_total{outcome="ready"}'
SCRIPT: Final = 'echo "$NODEPOOL_OCB_IMAGE" > "$NODEPOOL_OCB_OUTPUT_RAW"'


def measure(plan: Plan) -> Iterator[Figure]:
    """Seconds of the uploads, of all images to all providers, with four workers; then requests a second."""
    images, seconds = plan.size(IMAGES, least=3), plan.size(int(SECONDS), least=35)
    with ensemble.server() as server, tempfile.TemporaryDirectory(prefix="nodepool-ocb-bench-") as name:
        folder = Path(name)
        with _builder(server, folder, images) as process:
            uploads = images * PROVIDERS
            configure(folder, images, pause=False)
            began = time.monotonic()
            process.reload()
            await_that(lambda: process.metric(UPLOADED) >= uploads, PATIENCE_SECONDS, "all is uploaded")
            took = time.monotonic() - began
            asked, writes, cpu = counters.requests(server), counters.transactions(server), process.cpu_seconds
            time.sleep(seconds)
            asked = counters.requests(server) - asked
            writes = counters.transactions(server) - writes
            cpu = process.cpu_seconds - cpu
        copied = _copied(folder, images)
    yield Figure(
        name="builder",
        what=f"{uploads} uploads that cost nothing, {WORKERS} workers",
        unit="s",
        ours=took,
        other=copied,
        beside="the files copied, with their checksums",
        ratio=took,
        bound="at most",
        target=10.0,
        note="Nodepool 11 sleeps after each; the target is in seconds",
    )
    what = f"an idle builder with {images} images at {PROVIDERS} providers, {seconds} s"
    yield Figure(
        name="builder",
        what=f"{what}: requests",
        unit="requests/s",
        ours=asked / seconds,
        ratio=asked / seconds,
        bound="at most",
        target=1.0,
        note=f"pings and sweeps included; {cpu / seconds:.2%} of a core",
    )
    yield Figure(
        name="builder", what=f"{what}: writes", unit="writes", ours=writes, ratio=writes, bound="at most", target=0
    )


@contextmanager
def _builder(server: Server, folder: Path, images: int) -> Iterator[DaemonProcess]:
    """A builder that has built everything and uploaded nothing."""
    configure(folder, images, pause=True)
    sections = {"builder": {"build_workers": 2, "upload_workers": WORKERS, "free_bytes": 0}}
    with DaemonProcess(init(ensemble.settings(server)), folder, sections, BUILDER) as process:
        built = 'nodepool_ocb_builds_total{outcome="ready"}'
        await_that(lambda: process.metric(built) >= images, PATIENCE_SECONDS, "all is built", alive=process.running)
        yield process


def configure(folder: Path, images: int, pause: bool) -> None:
    """Write the nodepool.yaml; ``pause`` holds back all uploads."""
    names = [f"image-{number}" for number in range(images)]
    keys: dict[str, Any] = {"backend": "command", "options": {"argv": ["/bin/sh", "-c", SCRIPT]}, "formats": ["raw"]}
    providers = [
        {
            "name": f"provider-{number}",
            "driver": "local",
            "directory": str(folder / f"provider-{number}"),
            "diskimages": [{"name": name, "pause": pause} for name in names],
        }
        for number in range(PROVIDERS)
    ]
    diskimages = [{"name": name, **keys} for name in names]
    document = {"images-dir": str(folder / "images"), "diskimages": diskimages, "providers": providers}
    (folder / "nodepool.yaml").write_text(yaml.safe_dump(document))


def _copied(folder: Path, images: int) -> float:
    """The seconds that it takes to copy as many files, and to read each once for its checksum."""
    target = folder / "copies"
    target.mkdir()
    began = time.monotonic()
    for file in sorted((folder / "images").glob("*.raw"))[:images]:
        for number in range(PROVIDERS):
            copy = Path(shutil.copy(file, target / f"{file.name}.{number}"))
            hashlib.sha256(copy.read_bytes()).hexdigest()
    return time.monotonic() - began
