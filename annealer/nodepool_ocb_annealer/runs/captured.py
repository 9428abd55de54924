"""The console that belongs to the run of an installation, and the log that it becomes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from nodepool_ocb import power
from nodepool_ocb.engine import installing, powering
from nodepool_ocb.errors import Invalid
from nodepool_ocb.http import logs
from nodepool_ocb.model.installation import Installation
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.power import FaultKind, PowerFault
from nodepool_ocb.power.driver import SerialConsole
from nodepool_ocb.secrecy.errors import Sealed
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb.telemetry.redaction import Mask
from nodepool_ocb_annealer.consoles.captures import CaptureOrder
from nodepool_ocb_annealer.context import AnnealerContext
from nodepool_ocb_annealer.machines.powering import endpoint
from nodepool_ocb_annealer.runs.attempts import Attempt


def order(context: AnnealerContext, attempt: Attempt, record: Installation, former: str) -> CaptureOrder | None:
    """The console to read; None for a machine without one, and where no log is kept and nothing could be read later.

    ``former``: the run that this one continues. The log hides the name of the boot script and each token: a kernel prints its
    command line. A token that is used is in no record any more, and one of an older script never was in this one's.
    """
    grant = attempt.grant
    found = powering.powers(context.world).get(grant.fqdn)
    if context.settings.consoles < 1 or found is None:
        return None
    if not power.has_console(found.record.driver, found.record.options):
        return None
    token = installing.boot_token(grant.vertex.node)
    hidden = {record.nonce, token.record.text if token is not None else ""} - {""}
    return CaptureOrder(
        name=attempt.name,
        open=partial(_opened, found.record, context.secrets),
        file=_file(context, attempt, grant.run),
        former=_file(context, attempt, former) if former else None,
        take=bool(former) or attempt.state.takeover,
        log_bytes=context.settings.log_run_bytes,
        mask=Mask(frozenset(hidden), tokens=True),
    )


def _file(context: AnnealerContext, attempt: Attempt, run: str) -> Path | None:
    folder, grant = context.settings.log_dir, attempt.grant
    return logs.file_of(folder, logs.of_run(grant.vertex.role, grant.fqdn, run)) if folder else None


def _opened(record: MachinePower, secrets: Secrets, take: bool) -> SerialConsole:
    """In a thread that may block."""
    try:
        return power.console(endpoint(record, secrets), take=take)
    except (Sealed, Invalid) as wrong:
        raise PowerFault(FaultKind.OWN, f"{wrong}; set it again: nodepool-ocb power set") from wrong
