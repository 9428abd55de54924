"""The completion of words: none if ZooKeeper, or the server of ``--api``, does not answer in two seconds.

Each is a ``shell_complete`` of click: of the names that exist, those with the typed beginning. A name that ends with
``=``, ``/`` or ``@`` goes on. ``operations.completion`` reads the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import click

from nodepool_ocb.telemetry import terminal_escape

PATIENCE_SECONDS: Final = 2.0

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _names(kind: str) -> Complete:
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        from nodepool_ocb.cli.kit.performing import asked_in_haste
        from nodepool_ocb.operations.completion.offering import PARAMETERS, CompletionNames

        try:
            typed = {name: ctx.params[name] for name in PARAMETERS if ctx.params.get(name)}
            found = asked_in_haste(
                CompletionNames(kind=kind, typed=typed, incomplete=incomplete), ctx, PATIENCE_SECONDS
            )
        except Exception:  # of any kind: a shell in the middle of a line has no use for it
            return []
        return _offered(found, incomplete)

    return complete


def _offered(found: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in found if name.startswith(incomplete) and not terminal_escape.odd(name))


roles = _names("roles")
nodes = _names("nodes")
deployments = _names("deployments")
images = _names("images")
releases = _names("releases")
noderoles = _names("noderoles")
rollouts = _names("rollouts")
task_runs = _names("task_runs")
groups = _names("groups")
runs = _names("runs")
builds = _names("builds")
daemons = _names("daemons")
providers = _names("providers")
tags = _names("tags")
racks = _names("racks")
labels = _names("labels")
selectors = _names("selectors")
places = _names("places")
assignments = _names("assignments")
settings = _names("settings")
requests = _names("requests")
tokens = _names("tokens")
networks = _names("networks")
bootenvs = _names("bootenvs")
registrations = _names("registrations")
adoption_rules = _names("adoption_rules")
leases = _names("leases")
pools = _names("pools")
pool_labels = _names("pool_labels")
pool_providers = _names("pool_providers")
tasks = _names("tasks")


def node_fields(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """``FIELD=`` of ``node set``."""
    from nodepool_ocb.operations.assignments import FIELDS

    known = [*(f"{field}=" for field in FIELDS), "labels.", "hints."]
    return [each for each in known if each.startswith(incomplete)]


def network_fields(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """``FIELD=`` of ``network create`` and ``network set``."""
    from nodepool_ocb.operations.networks.changing import KEYS

    return [f"{key}=" for key in KEYS if key.startswith(incomplete)]


def bootenv_fields(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """``FIELD=`` of ``bootenv create`` and ``bootenv set``."""
    from nodepool_ocb.operations.bootenvs.changing import KEYS

    return [f"{key}=" for key in KEYS if key.startswith(incomplete)]


def adoption_fields(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """``FIELD=`` of ``adoption set``."""
    from nodepool_ocb.operations.joining.rules import KEYS

    return [each if each.endswith(".") else f"{each}=" for each in KEYS if each.startswith(incomplete)]


def before(names: Complete, more: Complete) -> Complete:
    """For words that begin with names: from the second on, or beside a selector, also the words that follow the names."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        if not (ctx.params.get("words") or ctx.params.get("selector")):
            return names(ctx, param, incomplete)
        found = more(ctx, param, incomplete)
        return [*found, *names(ctx, param, incomplete)] if incomplete else found

    return complete
