"""Registered builders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nodepool_ocb.model.records import Daemon
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class ReadBuilders(Lookup["Mapping[str, Daemon | None]"], frozen=True):
    """The registrations of builders, by id; None for one that cannot be read."""

    records = "daemons"

    def answer(self, reader: Reader) -> Mapping[str, Daemon | None]:
        from nodepool_ocb.store import daemons

        return daemons.read(reader.session, ClientKind.BUILDER)
