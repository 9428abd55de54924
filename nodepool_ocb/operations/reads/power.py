"""Power: the check of an access by the rules of its driver, and the id of a new request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


PASSWORD_LETTERS: Final = 16  # as many as IPMI 1.5 takes
#: One of each kind comes first, for BMCs with such a rule; none of these letters means a thing to a shell or to ipmitool.
KINDS: Final = ("abcdefghijkmnpqrstuvwxyz", "ABCDEFGHJKLMNPQRSTUVWXYZ", "23456789", "-_.+")
ALL: Final = "".join(KINDS)


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


class ResolveHosts(Lookup["Mapping[str, tuple[str, ...]]"], frozen=True):
    """The addresses of names of hosts, as this host resolves them; a name without an answer in time is left out."""

    records = ""
    kept = True

    hosts: tuple[str, ...]

    def answer(self, reader: Reader) -> Mapping[str, tuple[str, ...]]:  # noqa: ARG002
        if not self.hosts:
            return {}
        from nodepool_ocb.power import resolving  # here, since few calls need it

        return resolving.addresses(self.hosts)


class DrawPassword(Lookup["dict[str, Json]"], frozen=True):
    """A new password for the BMC of a node, encrypted for its place; the same in each attempt of a call. Raises Sealed."""

    records = "keys of the host"
    kept = True

    place: str
    node: str

    def answer(self, reader: Reader) -> dict[str, Json]:
        import secrets  # here, since few calls need it

        from nodepool_ocb.secrecy.errors import Sealed
        from nodepool_ocb.secrecy.opening import Secrets

        drawn = "".join(secrets.choice(letters) for letters in (*KINDS, *[ALL] * (PASSWORD_LETTERS - len(KINDS))))
        try:
            return Secrets(reader.performer.settings().secrets).keys().encrypt(self.place, drawn)
        except Sealed as sealed:
            raise Sealed(f"{self.place} is secret, and cannot be encrypted here: {sealed}", own=True) from None


class DrawRequest(Lookup[str], frozen=True):
    """The id of a new request; the same in each attempt of a call."""

    records = ""
    kept = True

    def answer(self, reader: Reader) -> str:  # noqa: ARG002
        import secrets  # here, since few calls need it

        return secrets.token_hex(8)
