"""``image export`` and ``image import``: the records of images as one document, from one ZooKeeper to another.

The document names images, below each its builds by id, below these their uploads by provider and id; records are as they are
in ZooKeeper. Builds and uploads under way are left out, since no builder could go on with them. The files of builds stay with
the builder that has the ``builder_id`` of the records in its image directory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from nodepool_ocb.cli.kit import completion, output, reporting, terminal
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.documents import files
from nodepool_ocb.errors import Invalid
from nodepool_ocb.operations.images.exporting import ImageExport, ImagesDocument
from nodepool_ocb.operations.images.importing import ImageImport
from nodepool_ocb.views.view import View, plain


class Export(View, frozen=True):
    """The document, as it is shown."""

    record: ImagesDocument


class Named(View, frozen=True):
    """An image that is exported."""

    name: str


# -- export --


@click.command("export", cls=Verb, operation=ImageExport)
@click.argument("names", nargs=-1, metavar="[IMAGE]...", shell_complete=completion.images)
def export(names: Sequence[str]) -> None:
    """The records of images as one JSON document, for `image import`; of all images unless some are named.

    Builds and uploads that are under way are left out. Give `-o yaml` for YAML.
    """
    document = Export(perform(ImageExport(images=tuple(names))).answer)
    if output.chosen() == "table":
        terminal.document(plain(document))
    elif output.chosen() == "name":
        output.things([Named(name) for name in document.record.images], ("name",))
    else:
        output.thing(document, "")


# -- import --


@click.command("import", cls=Verb, operation=ImageImport)
@click.argument("file", type=click.Path())
@dry_run_option
def import_(file: str, dry_run: bool) -> None:
    """Write the records of a document that `image export` made, or `nodepool export-image-data`; `-` reads it from stdin.

    An image that is there already is refused, unless all that it has is in the document, and the same: then the rest is
    written. Nothing is written where anything is refused; each image is written whole or not at all.
    """
    reporting.performed(perform(ImageImport(images=_read(file).images), dry_run=dry_run))


def _read(name: str) -> ImagesDocument:
    from nodepool_ocb.operations.images.documents import MOST_BYTES, parsed

    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1) if name == "-" else files.read(name, MOST_BYTES)
    except OSError as error:
        raise Invalid(f"{name} cannot be read: {error.strerror}; check the path and the mode") from None
    return parsed(data, name)
