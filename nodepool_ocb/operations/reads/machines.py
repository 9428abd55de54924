"""Machines with a stamp at the providers in the launchers' file of this host. One procedure deletes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.errors import Invalid, NotFound, OcbError, Unavailable
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Lookup, Procedure
from nodepool_ocb.operations.reads.pools import ReadPoolConfiguration

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.providers.calls import MachineCalls


class StampedMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine with the parts of its stamp."""

    external_id: str
    name: str
    at: str  # the provider that has it, by its name in the file
    cluster: str
    provider: str
    pool: str
    node: str
    key: str
    since: float | None


class ListStampedMachines(Lookup[tuple[StampedMachine, ...]], frozen=True):
    """The machines of one provider, or of all, that bear a whole stamp.

    Of all providers, a note names each that does not answer. Raises NotFound, or Unavailable for the named provider.
    """

    records = "providers"

    provider: str | None

    def answer(self, reader: Reader) -> tuple[StampedMachine, ...]:
        found: list[StampedMachine] = []
        with _opened(reader, self.provider) as calls:
            for name, each in calls.items():
                try:
                    found += _stamped(name, each)
                except Unavailable as silent:
                    if self.provider is not None:
                        raise
                    reader.performer.caller.note(f"warning: {name} cannot be asked now: {silent}")
        return tuple(found)


class DeleteStampedMachine(Procedure[None], frozen=True):
    """Delete a machine at its provider, and note it in the journal. Raises OcbError if it is refused."""

    records = "providers"

    machine: StampedMachine

    def carry_out(self, reader: Reader) -> None:
        from nodepool_ocb.providers.machines import MachineStamp

        stamp = msgspec.convert(self.machine, MachineStamp, from_attributes=True)
        with _opened(reader, self.machine.at) as calls:
            refused = calls[self.machine.at].delete(self.machine.external_id, stamp)
        if refused is not None:
            raise OcbError(refused.reason)
        name = f"{self.machine.external_id} at {self.machine.at}"
        reader.performer.journal.done(reader.session, "delete", "leak", [name])


@contextmanager
def _opened(reader: Reader, name: str | None) -> Iterator[Mapping[str, MachineCalls]]:
    """The provider of this name, or all that make machines. Raises NotFound."""
    from nodepool_ocb.providers import launching

    known = ReadPoolConfiguration().answer(reader)
    configured = {} if known.configuration is None else known.configuration.providers
    if not configured:
        raise NotFound(f"{known.file} has no pools, so no provider can be asked; call this on the host of a launcher")
    if name is not None and name not in configured:
        raise unknown("provider", name, configured)
    calls: dict[str, MachineCalls] = {}
    try:
        for each in configured.values():
            if name in (None, each.name):
                try:
                    calls[each.name] = launching.open(each, reader.performer.settings().ssh)
                except Invalid as missing:
                    if name is not None:
                        raise
                    reader.performer.caller.note(f"warning: not asked: {missing}")
        yield calls
    finally:
        for opened in calls.values():
            opened.close()


def _stamped(name: str, calls: MachineCalls) -> Iterator[StampedMachine]:
    for machine in calls.list():
        stamp = machine.stamp
        if stamp is not None:
            yield StampedMachine(
                external_id=machine.external_id,
                name=machine.name,
                at=name,
                cluster=stamp.cluster,
                provider=stamp.provider,
                pool=stamp.pool,
                node=stamp.node,
                key=stamp.key,
                since=machine.since,
            )
