"""The selectors that seed 003 gives as an example."""

from __future__ import annotations

from nodepool_ocb.model.records import Node
from nodepool_ocb.rollout import reading
from nodepool_ocb.rollout.selectors import select

#: "node_name in (node01, node02) and rack_name in (rack01) and node_tags in (control)", and "node04 with the label".
SELECTORS = (
    "{node_names: [node01, node02], rack_names: [rack01], node_tags: [control]}",
    "{node_names: [node04], node_labels: [ucp_control_plane: enabled]}",
)


def site(**changed: Node) -> dict[str, Node]:
    control = Node(rack="rack01", tags=("control",), labels={"ucp_control_plane": "enabled"})
    nodes = dict.fromkeys(("node01", "node02", "node03", "node04"), control) | changed
    return {f"{name}.example.com": node for name, node in nodes.items()}


def meant(inventory: dict[str, Node]) -> list[str]:
    chosen = select([reading.selector(text) for text in SELECTORS], inventory)
    return [name.partition(".")[0] for name in chosen]


def test_the_selectors_of_the_seed_s_example() -> None:
    assert meant(site()) == ["node01", "node02", "node04"]
    other_rack = Node(rack="rack02", tags=("control",))
    no_tag = Node(rack="rack01")
    no_label = Node(rack="rack01", tags=("control",), labels={"ucp_control_plane": "disabled"})
    assert meant(site(node01=other_rack)) == ["node02", "node04"]
    assert meant(site(node02=no_tag)) == ["node01", "node04"]
    assert meant(site(node04=no_label)) == ["node01", "node02"]
