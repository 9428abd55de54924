"""The change of the password of a BMC, in such an order that the access is never lost.

Both passwords are stored before. The BMC has one of them: a repetition finds out which, and so does any later command.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from nodepool_ocb.model.power import Powered
from nodepool_ocb.power.driver import FaultKind, Power, PowerFault


def rotated(opened: Callable[[str], Power], password: str, fresh: str, ours: Callable[[], bool]) -> Powered | None:
    """Give the BMC the fresh password, and log in with it; gives the state of the machine. Raises PowerFault.

    ``opened``: the access with a password. None: the request is another caller's by now, and nothing was changed. If the answer
    to the change is lost, the login with the fresh password decides.
    """
    trouble: PowerFault | None = None
    with closing(opened(password)) as power:
        try:
            power.status()
            if not ours():
                return None
            power.set_password(fresh)
        except PowerFault as fault:
            trouble = fault
    if trouble is not None and trouble.fault not in (FaultKind.LOGIN, FaultKind.UNREACHABLE):
        raise trouble
    with closing(opened(fresh)) as power:
        try:
            return power.status()
        except PowerFault as fault:
            if fault.fault is FaultKind.LOGIN and trouble is None:
                text = "the new password was accepted, and the BMC refuses it now; both stay in the record"
                raise PowerFault(FaultKind.NO_EFFECT, text) from fault
            raise trouble or fault from fault


def either(opened: Callable[[str], Power], password: str, fresh: str | None) -> tuple[Power, bool]:
    """An access that logs in, and whether it is by the fresh password; costs one question. Raises PowerFault."""
    power = opened(password)
    if fresh is None:
        return power, False
    try:
        power.status()
    except PowerFault as fault:
        power.close()
        if fault.fault is not FaultKind.LOGIN:
            raise
        return opened(fresh), True
    return power, False
