"""``nodepool-ocb installation``."""

from __future__ import annotations

import click

from nodepool_ocb.cli.kit import completion, output, reporting
from nodepool_ocb.cli.kit.options import Noun, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.installations.identity import InstallationIdentity
from nodepool_ocb.operations.installations.progress import InstallationReport, InstallationShow, ReportKind


@click.group(cls=Noun)
def command() -> None:
    """Installations of machines: their progress, and the words of their installers."""


@command.command(operation=InstallationShow)
@click.argument("fqdn", shell_complete=completion.nodes)
def show(fqdn: str) -> None:
    """The progress of the newest installation of a machine."""
    found = perform(InstallationShow(node=fqdn)).answer
    output.thing(found, fqdn, output.fields(found))


@command.command(operation=InstallationIdentity)
@click.argument("fqdn", shell_complete=completion.nodes)
@click.argument("mac")
@click.argument("boot_id")
@click.argument("host_key")
@dry_run_option
def identity(fqdn: str, mac: str, boot_id: str, host_key: str, dry_run: bool) -> None:
    """Exchange the token of a boot for the order of the installation.

    Installers call this, with the token from their boot script. MAC is that of the card that booted; HOST_KEY is "TYPE KEY".
    """
    operation = InstallationIdentity(node=fqdn, mac=mac, boot_id=boot_id, host_key=host_key)
    performed = perform(operation, dry_run=dry_run)
    if dry_run:
        reporting.performed(performed)
        return
    output.thing(performed.answer, fqdn, output.fields(performed.answer))


@command.command(operation=InstallationReport)
@click.argument("fqdn", shell_complete=completion.nodes)
@click.argument("step", type=click.Choice([str(each) for each in ReportKind]))
@click.option("--percent", type=click.IntRange(0, 100), default=0, help="The part of the image that is on the disk.")
@click.option("--detail", default="", help="The reason of a failure.")
@click.option("--checksum", default="", help="Of the disk: sha256:HEX.")
@click.option("--disk", default="", help="The disk that lost its data; with --detail: that did not.")
@dry_run_option
def report(fqdn: str, step: str, percent: int, detail: str, checksum: str, disk: str, dry_run: bool) -> None:
    """Record a word of the installer of a machine. Installers call this with the token of their machine."""
    operation = InstallationReport(
        node=fqdn, step=ReportKind(step), percent=percent, reason=detail, checksum=checksum, disk=disk
    )
    reporting.performed(perform(operation, dry_run=dry_run))
