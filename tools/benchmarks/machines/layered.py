"""A grid with attributes: layers of ACTIVE noderoles stand above the first step of each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Json, NodeRole, Role, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.grid import DEPLOYMENT, SINCE, Grid


class Layered(Grid, frozen=True, kw_only=True):
    """``layers``: the attributes of the noderoles above, the topmost first; ``own``: those of each step."""

    layers: tuple[Mapping[str, Json], ...] = ()
    own: Mapping[str, Json] = {}

    def write(self, session: Session) -> None:
        super().write(session)
        self._commit(session, self._above())

    def _parents(self, node: int, level: int, lane: int) -> tuple[str, ...]:
        if level or not self.layers:
            return super()._parents(node, level, lane)
        return (paths.noderole_name(_layer(len(self.layers) - 1), self.fqdn(node)),)

    def _above(self) -> Iterator[Change]:
        for number in range(len(self.layers)):
            yield Create(paths.role(_layer(number)), Role(barclamp="bench", jig="noop"))
        for node in range(self.nodes):
            fqdn = self.fqdn(node)
            for number, values in enumerate(self.layers):
                path = paths.noderole(_layer(number), fqdn)
                yield Create(path, self._active(fqdn, number))
                yield Create(f"{path}/runs")
                yield Create(f"{path}/user", dict(values))
            if self.own:
                yield from (Create(f"{path}/user", dict(self.own)) for path in self._steps_of(node))

    def _active(self, fqdn: str, number: int) -> NodeRole:
        parents = (paths.noderole_name(_layer(number - 1), fqdn),) if number else ()
        return NodeRole.of(
            state=State.ACTIVE, since=SINCE, deployment=DEPLOYMENT, parents=parents, generation=1,
            run=f"{number + 1:010d}-5eed00", epoch=number + 1, by="bench",
        )  # fmt: skip

    def _steps_of(self, node: int) -> list[str]:
        each = self.lanes * self.depth
        return list(self.paths())[node * each : (node + 1) * each]


def _layer(number: int) -> str:
    return f"layer-{number}"
