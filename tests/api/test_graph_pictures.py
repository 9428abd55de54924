"""The picture of a graph on the server: shapes without markup, and bounds on the program that places them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb.api.page import drawing
from nodepool_ocb.api.page.drawing import Drawer, GraphDrawing, Undrawn
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.views.graphs import excerpt
from nodepool_ocb.views.graphs.noderoles import Graph, NoderoleVertex
from tests.api.served import ServedApi, problem

graphviz = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")

HOSTILE = """<svg viewBox="0.00 0.00 20.00 10.00" xmlns="http://www.w3.org/2000/svg" onload="alert(1)">
<g transform="scale(1 1) rotate(0) translate(4 112)"><script>alert(1)</script>
<g id="b0" class="node" onclick="alert(1)"><title>t</title>
<a href="javascript:alert(1)"><text x="1" y="2" onclick="alert(1)">hi</text></a>
<polygon points="1,2 url(#x)"/><path d="M1,2" style="fill:url(http://elsewhere)"/>
<foreignObject><b>x</b></foreignObject><image href="http://elsewhere"/></g>
<g id="e1"><path d="M0,0C1,1 2,2 3,3"/></g></g></svg>"""


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Put a program in the place of dot."""
    (folder / "dot").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def reason(found: GraphDrawing | Undrawn) -> str:
    assert isinstance(found, Undrawn)
    return found.reason


def test_a_drawing_has_shapes_and_texts_alone() -> None:
    found = drawing.parsed(HOSTILE.encode())
    assert (found.width, found.height, found.shift) == (20.0, 10.0, (4.0, 112.0))
    arrow, box = found.groups
    assert (arrow.box, [each.tag for each in arrow.shapes]) == (None, ["path"])
    assert box.box == 0
    assert [(each.tag, each.attributes, each.text) for each in box.shapes] == [
        ("text", {"x": "1", "y": "2"}, "hi"),
        ("path", {"d": "M1,2"}, None),
    ]


def test_without_graphviz_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install graphviz" in reason(Drawer().draw("digraph {}"))


def test_a_drawing_that_takes_too_long_is_killed_with_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, until: Callable[..., None]
) -> None:
    pretend(monkeypatch, tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; cat > /dev/null; wait")
    monkeypatch.setattr(drawing, "SECONDS", 0.5)
    assert "within 0.5 seconds" in reason(Drawer().draw("digraph {}"))
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")

    def ended() -> bool:
        try:
            return child.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    until(ended)


def test_a_drawing_has_little_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, tmp_path, "cat > /dev/null; ulimit -v >&2; ulimit -c >&2; exit 1")
    assert f"{drawing.MEMORY_BYTES // 1024}\\n0" in reason(Drawer().draw("digraph {}"))


def test_few_drawings_run_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, tmp_path, "exit 1")
    monkeypatch.setattr(drawing, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(drawing, "MOST_AT_ONCE", 0)
    busy = Drawer()
    assert "draws other graphs" in reason(busy.draw("digraph {}"))


@graphviz
def test_a_text_that_was_drawn_is_not_drawn_again_and_keeps_each_character(monkeypatch: pytest.MonkeyPatch) -> None:
    name = 'a "quoted" <b>&amp; \\N ü@n'
    vertex = NoderoleVertex(name=name, state="ACTIVE", deployment="d")  # type: ignore[arg-type]
    text = excerpt.dot(excerpt.near(Graph(nodes=(vertex,), edges=()), name, 1))
    drawer = Drawer()
    found = drawer.draw(text)
    assert isinstance(found, GraphDrawing)
    words = [each.text.replace("\xa0", " ") for each in found.groups[0].shapes if each.text]
    assert words == [name.removesuffix("@n"), "n", "ACTIVE"]
    monkeypatch.setenv("PATH", "")
    assert drawer.draw(text) is found


def test_the_picture_has_the_version_of_the_world_and_says_how_it_is_cut(api: ServedApi) -> None:
    grid = Grid(nodes=4, depth=4, active=True)
    with Session(api.settings) as session:
        grid.write(session)
        written = session.last_zxid
    place = "/v1/graph/picture"
    answer = api.ask("GET", f"{place}?deployment=bench", Ocb_Min_Zxid=str(written))
    found = answer.json()["answer"]
    assert [(box["name"], box["states"]) for box in found["boxes"]] == [
        (f"step-{level}-0", {"ACTIVE": 4}) for level in range(4)
    ]
    assert found["arrows"] == [[0, 1], [1, 2], [2, 3]]
    near = api.ask("GET", f"{place}?around=step-1-0@{grid.fqdn(0)}&steps=1").json()["answer"]
    assert near["cut"].startswith(f"{len(near['boxes'])} of ")
    for query, status in (("steps=9", 422), ("colour=red", 422), ("around=nothing@n", 404), ("deployment=x", 404)):
        assert problem(api.ask("GET", f"{place}?{query}"))[0] == status
    assert problem(api.ask("GET", place, token=api.direct.token(role="viewer", selector="rack:r1")))[0] == 403
    if shutil.which("dot") is None:
        assert "apt-get install graphviz" in found["undrawn"]
        return
    assert len([group for group in found["drawing"]["groups"] if group["box"] is not None]) == 4
    known = answer.headers["etag"]
    assert api.ask("GET", f"{place}?deployment=bench", If_None_Match=known).status_code == 304
    api.call("node/hold", {"nodes": [grid.fqdn(0)], "reason": "disk"})
    assert api.ask("GET", f"{place}?deployment=bench", If_None_Match=known).status_code == 200
