"""Power: the check of an access by the rules of its driver, and the id of a new request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nodepool_ocb.errors import Invalid
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class CheckDriver(Lookup[None], frozen=True):
    """Raises Invalid, with one sentence for each fault, that begins with the name of the node."""

    records = ""

    driver: str
    address: str
    options: Mapping[str, str]
    node: str

    def answer(self, reader: Reader) -> None:  # noqa: ARG002
        from nodepool_ocb import power  # here, so that a start of the command does not load it

        try:
            power.checked(self.driver, self.address, self.options)
        except Invalid as wrong:
            raise Invalid([f"{self.node}: {each}" for each in wrong.problems]) from None


class DrawRequest(Lookup[str], frozen=True):
    """The id of a new request; the same in each attempt of a call."""

    records = ""
    kept = True

    def answer(self, reader: Reader) -> str:  # noqa: ARG002
        import secrets  # here, since few calls need it

        return secrets.token_hex(8)
