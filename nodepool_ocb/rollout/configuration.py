"""Airship's DeploymentConfiguration beside a strategy: the name of the strategy, and the times of the two phases.

Its other keys concern parts of Airship that are not here, and are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from nodepool_ocb.documents import schema
from nodepool_ocb.documents.document import Document
from nodepool_ocb.documents.plainyaml import Fault

SCHEMA: Final = "shipyard/DeploymentConfiguration/v1"
KIND: Final = SCHEMA.rpartition("/")[0]
NAME: Final = "deployment-configuration"  # of the document that is taken where there are several
SECTION: Final = ("data", "physical_provisioner")

#: Keys of the section that give a phase its time, in seconds.
TIMES: Final = {"prepare_node_timeout": "prepare", "deploy_timeout": "deploy"}


class Configuration(msgspec.Struct, frozen=True):
    """The keys of a DeploymentConfiguration that are read."""

    strategy: str | None = None  # the name of the strategy to use
    seconds: Mapping[str, float] = {}  # phase → its time
    place: str = ""  # FILE:LINE where the strategy is named


def faults(document: Document) -> list[Fault]:
    """The faults in the keys that are read, by line."""
    return schema.faults(document, "strategy.json#configuration")


def one(documents: Sequence[Document]) -> tuple[Configuration, list[str]]:
    """The configuration in these documents, and the faults.

    It is empty if there is no document. It is empty, with a fault for each, if there are several and not exactly one is named
    ``NAME``.
    """
    named = [document for document in documents if _name(document) == NAME]
    chosen = documents if len(documents) < 2 else named
    if len(chosen) == 1:
        return _read(chosen[0]), []
    return Configuration(), [
        document.fault((), f"is one of {len(documents)} documents of {SCHEMA}; keep one, or name one of them {NAME}")
        for document in documents
    ]


def _name(document: Document) -> str:
    return str((document.value.get("metadata") or {}).get("name", NAME))


def _read(document: Document) -> Configuration:
    section = (document.value.get("data") or {}).get("physical_provisioner") or {}
    seconds = {phase: float(section[key]) for key, phase in TIMES.items() if section.get(key) is not None}
    place = f"{document.name}:{document.line((*SECTION, 'deployment_strategy'))}"
    return Configuration(section.get("deployment_strategy"), seconds, place)
