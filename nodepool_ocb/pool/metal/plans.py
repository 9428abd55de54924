"""The values of the driver metal: an offer of machines, a plan of one question, and a machine as its pool sees it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from nodepool_ocb.model.records import Change, InstallRequest


class MetalOffer(msgspec.Struct, frozen=True, kw_only=True):
    """The machines that a label may have, and their content. ``selectors``: a machine must fit all of them."""

    label: str
    selectors: tuple[str, ...]
    request: InstallRequest = InstallRequest()  # the content of its disks
    keeps: tuple[str, ...] = ()  # roles that a person bound, and that may stay on a free machine
    rivals: tuple[tuple[str, ...], ...] = ()  # the selectors of the other labels of the provider


class MetalStamp(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of one attempt to launch one node; its fields are those of a machine's stamp."""

    cluster: str
    provider: str
    pool: str
    node: str
    key: str


class MetalPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question, and what must be written before it counts.

    ``waits``: the answer is not known yet, and the question is decided again when something has changed.
    """

    answer: Any = None
    changes: tuple[Change, ...] = ()
    unbound: tuple[str, ...] = ()  # noderoles that go with these changes
    waits: str | None = None


class MetalSight(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that is in use, as it is now. ``words``: the progress of its installation, or the reason of its failure."""

    fqdn: str
    stamp: MetalStamp
    state: str  # as providers.machines has them: building, running, failed
    words: str | None = None
    user: str | None = None  # the login
    address: str | None = None
    port: int | None = None
    host_keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = {}


class MetalUntaken(msgspec.Struct, frozen=True, kw_only=True):
    """No machine is taken. ``ever``: one may be free later."""

    reason: str
    ever: bool = True


class MetalCount(msgspec.Struct, frozen=True, kw_only=True):
    """Machines by label, and of all labels together under the empty name: those that fit, and those not free for the provider."""

    fitting: Mapping[str, int] = {}
    others: Mapping[str, int] = {}  # of these: held, out, or used elsewhere
