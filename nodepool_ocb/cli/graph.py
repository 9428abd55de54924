"""``nodepool-ocb graph``: which noderole waits for which, drawn from parents to children."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

import click

from nodepool_ocb.cli.kit import completion, output, session, terminal
from nodepool_ocb.cli.kit.names import deployment_of, noderole_of
from nodepool_ocb.cli.kit.options import Verb, asked
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.records import Json, State

FILL: Final = {
    State.PROPOSED: "#e8d5f0",
    State.BLOCKED: "#fff3bf",
    State.TODO: "#d0ebff",
    State.TRANSITION: "#a5d8ff",
    State.ACTIVE: "#c3f0ca",
    State.ERROR: "#ffc9c9",
}


@click.command(cls=Verb)
@click.option("--deployment", shell_complete=completion.deployments, help="Only what belongs to this deployment.")
@click.option(
    "--around", metavar="ROLE@FQDN", shell_complete=completion.noderoles, help="Only what is above or below it."
)
@click.option("--format", "form", type=click.Choice(["dot", "mermaid", "json"]), help="The default is dot.")
def command(deployment: str | None, around: str | None, form: str | None) -> None:
    """Draw which noderole waits for which."""
    world = session.world()
    vertices = _chosen(world, deployment, around)
    if form in ("dot", "mermaid") and asked("output") not in (None, "table"):
        raise click.UsageError(f"--format {form} is text for people; take --format json, or leave -o away")
    if form == "json" and asked("output") is None:
        terminal.document(document(vertices))
    else:
        output.text(document(vertices), mermaid(vertices) if form == "mermaid" else dot(vertices))


def _chosen(world: World, deployment: str | None, around: str | None) -> list[Vertex]:
    chosen = set(_around(noderole_of(world, around)) if around else world.vertices())
    if deployment is not None:
        deployment_of(world, deployment)
        chosen = {vertex for vertex in chosen if vertex.record.deployment == deployment}
    return sorted(chosen, key=lambda vertex: vertex.name)


def _around(vertex: Vertex) -> set[Vertex]:
    """All above and all below a noderole, and itself."""
    found = {vertex}
    for above in (True, False):
        queue = [vertex]
        while queue:
            each = queue.pop()
            fresh = [other for other in (each.parents if above else each.children) if other not in found]
            found.update(fresh)
            queue += fresh
    return found


def _edges(vertices: Sequence[Vertex]) -> Iterable[tuple[str, str]]:
    shown = set(vertices)
    for child in vertices:
        yield from ((parent.name, child.name) for parent in child.parents if parent in shown)


def document(vertices: Sequence[Vertex]) -> dict[str, Json]:
    """The graph as JSON: ``nodes`` with their states, ``edges`` as [parent, child]."""
    nodes = [
        {"name": vertex.name, "state": str(vertex.record.state), "deployment": vertex.record.deployment}
        for vertex in vertices
    ]
    return {"nodes": nodes, "edges": [list(edge) for edge in _edges(vertices)]}


def dot(vertices: Sequence[Vertex]) -> str:
    """For Graphviz: one cluster a node."""
    lines = ["digraph noderoles {", '  rankdir="LR";', '  node [shape="box", style="filled,rounded"];']
    for fqdn in dict.fromkeys(vertex.node.name for vertex in vertices):
        lines += [f"  subgraph {json.dumps(f'cluster_{fqdn}')} {{", f"    label={json.dumps(fqdn)};"]
        for vertex in vertices:
            if vertex.node.name == fqdn:
                label = json.dumps(f"{vertex.role}\n{vertex.record.state}")
                lines.append(f'    {json.dumps(vertex.name)} [label={label}, fillcolor="{FILL[vertex.record.state]}"];')
        lines.append("  }")
    lines += [f"  {json.dumps(parent)} -> {json.dumps(child)};" for parent, child in _edges(vertices)]
    return "\n".join([*lines, "}"])


def mermaid(vertices: Sequence[Vertex]) -> str:
    """For Mermaid's flowcharts, as Markdown viewers draw them."""
    numbers = {vertex.name: f"n{number}" for number, vertex in enumerate(vertices)}
    lines = ["flowchart LR"]
    for fqdn in dict.fromkeys(vertex.node.name for vertex in vertices):
        lines.append(f"  subgraph {json.dumps(fqdn)}")
        for vertex in vertices:
            if vertex.node.name == fqdn:
                state = vertex.record.state
                lines.append(f'    {numbers[vertex.name]}["{vertex.role}<br/>{state}"]:::{state}')
        lines.append("  end")
    lines += [f"  {numbers[parent]} --> {numbers[child]}" for parent, child in _edges(vertices)]
    lines += [f"  classDef {state} fill:{colour}" for state, colour in FILL.items()]
    return "\n".join(lines)
