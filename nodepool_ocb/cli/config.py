"""``nodepool-ocb config``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import Noun, asked
from nodepool_ocb.views.cluster import ConfigDocument, Nodepool, config_words

if TYPE_CHECKING:
    from nodepool_ocb.config import BuilderSettings
    from nodepool_ocb.model.records import Json


@click.group(cls=Noun)
def command() -> None:
    """Check the configuration."""


@command.command(local="It checks the configuration file of this host.")
@click.option("--offline", is_flag=True, help="Do not try to reach ZooKeeper.")
@click.option(
    "--nodepool",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The file with diskimages and providers, instead of the one that the configuration names.",
)
def check(offline: bool, nodepool: Path | None) -> None:
    """Read the configuration, say everything that is wrong with it, and try to reach ZooKeeper.

    What the daemons would miss on this host is part of it: key files, folders, certificates, as far as the user who asks
    can see.

    The file with diskimages and providers (builder.nodepool) is part of it where it exists. Its diskimages are checked
    by their backends. Providers that a builder of this host would leave out are warned of.
    """
    import msgspec

    from nodepool_ocb import config
    from nodepool_ocb.daemon import preflight
    from nodepool_ocb.errors import Invalid

    found = asked("config") or config.find()
    settings = session.settings()
    if nodepool is None and found and preflight.may_be_there(settings.builder.nodepool):
        nodepool = Path(settings.builder.nodepool)
    images = _images(nodepool, settings.builder) if nodepool else None
    if problems := [*preflight.wrong(settings), *config.user_faults(settings.zookeeper)]:
        raise Invalid([f"{found or 'defaults'}: {each}" for each in problems])
    if not offline:
        with session.session():
            pass
    for each in preflight.doubtful(settings, Path(found) if found else None):
        output.say(f"warning: {each}")
    if nodepool and (shared := config.shared_port(settings)):
        output.say(f"warning: {shared}")
    sections = msgspec.to_builtins(settings)
    if sections["zookeeper"]["password"] is not None:
        sections["zookeeper"]["password"] = "***"
    if settings.annealer.webhook is not None:
        sections["annealer"]["webhook"]["url"] = config.receiver(settings.annealer.webhook.url)
    document = ConfigDocument(
        file=str(found) if found else None,
        zookeeper_reached=None if offline else True,
        settings=sections,
        nodepool=images or msgspec.UNSET,
    )
    output.thing(document, str(found or "defaults"), output.fields(config_words(document)))


def _takes(driver: str, options: Mapping[str, Json]) -> str | None:
    """As ``providers.takes``; where that is not known, the driver's default counts."""
    from nodepool_ocb import providers
    from nodepool_ocb.errors import Invalid

    try:
        return providers.takes(driver, options)
    except Invalid as unknown:
        output.say(f"warning: {unknown}; give `format` where it is not the default of the driver")
        return None


def _images(path: Path, builder: BuilderSettings) -> Nodepool:
    """The content of a nodepool.yaml, without anything that may be secret; raises Invalid with every fault."""
    from nodepool_ocb import providers
    from nodepool_ocb.images import backends, nodepool

    read = nodepool.load(path, builder.secure, environ=os.environ, takes=_takes)
    checkers, left_out = backends.checkers()
    backends.check(read.diskimages, checkers, str(path), read.line)
    for each in left_out:
        output.say(f"warning: {each.sentence}; builders of this host leave its images to others")
    for warning in read.warnings:
        output.say(f"warning: {warning}")
    for provider in read.providers:
        for fault in providers.faults(provider) if provider.diskimages else ():
            section = f"providers[{provider.name}]"
            where = f"{path}:{read.line(section + '.' + fault.partition(': ')[0])}"
            output.say(f"warning: {where}: {section}: {fault}; builders of this host leave it out")
    return Nodepool(
        file=str(path),
        diskimages=tuple(image.name for image in read.diskimages if not image.stub),
        providers=tuple(provider.name for provider in read.providers),
        labels=tuple(label.name for label in read.labels),
    )
