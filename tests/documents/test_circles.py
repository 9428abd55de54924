"""Circles in graphs of names: one shortest of each knot, in time also where it is long."""

import subprocess
import sys
import time

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.documents.cycles import components

NAMES = st.sampled_from("abcdefg")
GRAPHS = st.dictionaries(NAMES, st.lists(NAMES, max_size=4), max_size=7)


@given(GRAPHS)
def test_each_knot_has_one_shortest_circle_that_begins_with_its_first_name(graph: dict[str, list[str]]) -> None:
    whole = nx.DiGraph({name: [each for each in following if each in graph] for name, following in graph.items()})
    for knot in components(graph):
        *names, last = knot.circle
        assert names[0] == last == min(names)
        assert all(after in graph[before] for before, after in zip(knot.circle, knot.circle[1:], strict=False))
        assert len(names) == min(map(len, nx.simple_cycles(whole.subgraph(knot.names))))


def test_a_circle_of_ten_thousand_names_is_found_in_time() -> None:
    graph = {f"n{n:05}": [f"n{(n + 1) % 10_000:05}"] for n in range(10_000)}
    graph["n05000"].append("n00000")
    began = time.process_time()
    (knot,) = components(graph)
    assert len(knot.circle) == 5_002
    assert time.process_time() - began < 5


def test_a_graph_without_a_circle_needs_no_networkx() -> None:
    script = (
        "import sys; from nodepool_ocb.documents.cycles import components\n"
        "print(components({'a': ['b', 'c'], 'b': ['d', 'none'], 'c': ['d'], 'd': []}), 'networkx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[] False\n"
