"""A selector as an expression: criteria, joined by and, or, not and has. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from fnmatch import translate
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec


class CriterionKind(StrEnum):
    """The subject of a criterion; its text is the word in the language."""

    NAME = "name"  # a node's, or ROLE@FQDN; also written bare
    TAG = "tag"
    LABEL = "label"
    RACK = "rack"
    ADMIN = "admin"
    VIRTUAL = "virtual"
    ALIVE = "alive"
    AVAILABLE = "available"
    HELD = "held"
    DEPLOYMENT = "deployment"  # of a noderole its own, of a node the node's
    BELOW = "below"  # the same, or any deployment below it
    ROLE = "role"
    STATE = "state"
    FAILED = "failed"
    OUTDATED = "outdated"
    DRIFT = "drift"  # the result of its newest check
    MEMORY = "memory"  # this one and all below: facts of the node's machine
    CPUS = "cpus"
    DISKS = "disks"  # how many
    DISK_SIZE = "disk-size"  # of any disk
    NICS = "nics"  # how many
    NIC_SPEED = "nic-speed"  # of any network card
    SERIAL = "serial"
    VENDOR = "vendor"
    PRODUCT = "product"
    ARCH = "arch"
    FIRMWARE = "firmware"
    MAC = "mac"
    LLDP_SWITCH = "lldp-switch"
    LLDP_PORT = "lldp-port"


#: Criteria without a value.
FLAGS: Final = frozenset({CriterionKind.HELD, CriterionKind.FAILED, CriterionKind.OUTDATED})
YES_OR_NO: Final = frozenset({CriterionKind.ALIVE, CriterionKind.AVAILABLE, CriterionKind.ADMIN, CriterionKind.VIRTUAL})
#: Criteria that compare a number: memory>=64G.
NUMERIC: Final = frozenset(
    {
        *(CriterionKind.MEMORY, CriterionKind.CPUS, CriterionKind.DISKS, CriterionKind.DISK_SIZE),
        *(CriterionKind.NICS, CriterionKind.NIC_SPEED),
    }
)
#: The beginning of each criterion, as people type it.
BEGINNINGS: Final = tuple(
    str(each) if each in FLAGS else f"{each}>=" if each in NUMERIC else f"{each}:" for each in CriterionKind
)
#: Criteria of noderoles alone.
OF_NODEROLES: Final = frozenset(
    {CriterionKind.ROLE, CriterionKind.STATE, CriterionKind.FAILED, CriterionKind.OUTDATED, CriterionKind.DRIFT}
)


class Word(msgspec.Struct, frozen=True):
    """A value: a text, or a pattern of texts if ``glob`` is one.

    ``second``: the part after ``=`` of a label, ``@`` of a name; of a comparison, ``text`` is the operator, and this the number.
    """

    text: str
    glob: str | None = None  # in fnmatch's syntax
    at: int = 0  # its place in the selector, from 1
    second: Word | None = None

    def __str__(self) -> str:
        return self.text

    def among(self, texts: Iterable[str]) -> set[str]:
        """The texts that it means; ``second`` is not compared.

        >>> sorted(Word("n*", "n*").among(["n1", "m1", "n2"]))
        ['n1', 'n2']
        """
        if self.glob is None:
            return {self.text}.intersection(texts)
        return set(filter(_matcher(self.glob).match, texts))


class Criterion(msgspec.Struct, frozen=True):
    """Any of the values is enough."""

    kind: CriterionKind
    values: tuple[Word, ...] = ()
    at: int = 0


class Not(msgspec.Struct, frozen=True):
    of: Expression


class All(msgspec.Struct, frozen=True):
    parts: tuple[Expression, ...]


class Either(msgspec.Struct, frozen=True):
    parts: tuple[Expression, ...]


class Has(msgspec.Struct, frozen=True):
    """The node has a noderole of which the expression holds."""

    of: Expression


Expression: TypeAlias = Criterion | Not | All | Either | Has


def of_noderoles(criterion: Criterion) -> bool:
    """Whether only a noderole can have it: ``ROLE@FQDN`` is such a name."""
    return criterion.kind in OF_NODEROLES or any(
        criterion.kind is CriterionKind.NAME and word.second is not None for word in criterion.values
    )


def anchored(expression: Expression) -> bool:
    """Whether a node must have a noderole for it to hold: a criterion of noderoles says so, and no ``not`` around it."""
    match expression:
        case Criterion():
            return of_noderoles(expression)
        case All(parts):
            return any(map(anchored, parts))
        case Either(parts):
            return all(map(anchored, parts))
    return False


@lru_cache(256)
def _matcher(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))
