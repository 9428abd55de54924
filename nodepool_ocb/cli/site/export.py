"""``nodepool-ocb export``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import click
import msgspec

from nodepool_ocb.cli.kit import completion, output, selecting, terminal
from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.site.exporting import ExportSite


@click.command(cls=Verb, operation=ExportSite)
@selecting.nodes_argument
@selecting.node_selector_option
@click.option("--deployment", shell_complete=completion.deployments, help="Only nodes of it, and of those below it.")
@click.option("--no-roles", is_flag=True, help="Without the definitions of roles: their barclamps are elsewhere.")
def command(fqdns: Sequence[str], selector: str | None, deployment: str | None, no_roles: bool) -> None:
    """Print the cluster as a site file, for `apply`: roles, deployments, nodes, noderoles, and attributes that people set.

    Without names, -l or --deployment it is the whole cluster.

    Two exports of one state are the same, line for line. docs/site.md lists its content.
    """
    chosen = bool(fqdns) or selector is not None
    names = selecting.nodes_given(fqdns, selector) if chosen else ()
    operation = ExportSite(nodes=names, selector=selector, deployment=deployment, catalogue=not no_roles)
    found = perform(operation).answer
    if output.chosen() == "name":
        for name in found.nodes:
            terminal.text(name)
    elif output.chosen() == "json":
        terminal.document(msgspec.json.decode(found.document))
    else:
        _print(found.document)


def _print(document: msgspec.Raw) -> None:
    """As YAML, node by node: the whole of a large site would take much memory."""
    from nodepool_ocb.documents import written  # here, since yaml takes long to import

    if not bytes(document).isascii():  # one odd letter makes the whole document ASCII
        terminal.yaml_document(msgspec.json.decode(document))
        return
    site = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    nodes = msgspec.json.decode(site.pop("nodes"), type=dict[str, msgspec.Raw])
    terminal.yaml_document({key: msgspec.json.decode(value) for key, value in site.items()})
    if not nodes:
        terminal.yaml_document({"nodes": {}})
        return
    terminal.yaml_parts(
        chain(["nodes:\n"], (written.block({name: msgspec.json.decode(node)}, 2) for name, node in nodes.items()))
    )
