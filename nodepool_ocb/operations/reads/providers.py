"""Providers, as the nodepool.yaml of the performer's host names them: their objects with a stamp. One procedure deletes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid, NotFound, OcbError, Unavailable
from nodepool_ocb.operations.operation import Lookup, Procedure

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.providers import Kept, Stamp, Uploader


class ListExternal(Lookup["Sequence[tuple[str, Kept]]"], frozen=True):
    """The external objects of one provider, or of all, each with the name of the provider.

    Of all providers, a note names each that does not answer. Raises NotFound, or Unavailable for the named provider.
    """

    records = "providers"

    provider: str | None

    def answer(self, reader: Reader) -> Sequence[tuple[str, Kept]]:
        return list(_listed(reader, self.provider))


class DeleteExternal(Procedure[None], frozen=True):
    """Delete an external object at its provider, and note it in the journal. Raises OcbError if it is refused."""

    records = "providers"

    provider: str
    external_id: str
    stamp: Stamp
    name: str  # in the journal

    def carry_out(self, reader: Reader) -> None:
        refused = _uploaders(reader, self.provider)[self.provider].delete(self.external_id, self.stamp)
        if refused is not None:
            raise OcbError(f"{refused.reason}; mend that, and give the command again")
        reader.performer.journal.done(reader.session, "delete", "leak", [self.name])


def _uploaders(reader: Reader, name: str | None) -> Mapping[str, Uploader]:
    from nodepool_ocb import providers
    from nodepool_ocb.images import nodepool

    builder = reader.performer.settings().builder
    configured = {
        each.name: each for each in nodepool.load(builder.nodepool, builder.secure, environ=os.environ).providers
    }
    if name is not None and name not in configured:
        near = did_you_mean(name, configured) or f"; it has: {', '.join(configured) or 'none'}"
        raise NotFound(f"provider {name} is not in {builder.nodepool}{near}")
    opened = {}
    for each in configured.values():
        if each.name == name or (name is None and each.diskimages):
            try:
                opened[each.name] = providers.open(each)
            except Invalid as missing:
                reader.performer.caller.note(f"warning: not asked: {missing}")
    return opened


def _listed(reader: Reader, name: str | None) -> Iterator[tuple[str, Kept]]:
    for provider, uploader in _uploaders(reader, name).items():
        try:
            yield from ((provider, kept) for kept in uploader.list() if kept.stamp.provider == provider)
        except Unavailable as silent:
            if name is not None:
                raise Unavailable(f"{silent}; try again, or correct the provider in nodepool.yaml") from silent
            reader.performer.caller.note(f"warning: {provider} cannot be asked now: {silent}")
