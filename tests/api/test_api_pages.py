"""Pages of lists on a real server, while records change."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.operations.nodes.deleting import NodeDelete
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import Grid
from tests.api.served import ServedApi, problem


@pytest.mark.parametrize("nodes", [12, pytest.param(300, marks=pytest.mark.long)])
def test_a_cursor_over_noderoles_misses_none_that_stays_and_doubles_none(
    zk_settings: ZooKeeperSettings, tmp_path: Path, nodes: int
) -> None:
    grid = Grid(nodes=nodes, lanes=2, depth=10, across=False)
    with Session(zk_settings) as session:
        grid.write(session)
    api = ServedApi(zk_settings, tmp_path)
    try:
        seen: list[str] = []
        gone, cursor = 0, ""
        while cursor is not None:
            place = f"/v1/noderoles?limit={grid.size // 8}&fields=noderole,state" + (cursor and f"&cursor={cursor}")
            answer = api.ask("GET", place).json()
            rows, cursor = answer["answer"]["rows"], answer["next"]
            assert {*rows[0]} == {"noderole", "state"}
            seen += [row["noderole"] for row in rows]
            if gone < nodes // 4:  # nodes at both ends of the order go meanwhile
                for number in (gone, nodes - 1 - gone):
                    api.direct.perform(NodeDelete(nodes=(grid.fqdn(number),)))
                gone += 1
        left = [row["noderole"] for row in api.ask("GET", "/v1/noderoles").json()["answer"]["rows"]]
        assert len(left) == grid.size - 2 * gone * 20
        assert len(seen) == len({*seen})
        assert {*left} <= {*seen}
        assert problem(api.ask("GET", "/v1/noderoles?limit=0"))[0] == 422
        assert problem(api.ask("GET", "/v1/noderoles?cursor=x"))[0] == 422
        assert problem(api.ask("GET", "/v1/status?limit=1"))[0] == 422, "it is no list"
    finally:
        api.close()
