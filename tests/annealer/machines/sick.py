"""An annealer whose host fails at each order while the file SICK_FILE is there: python sick.py ...

SICK=before: before the machine hears of the order; SICK=after: when it has it; SICK=turn: each turn fails.
SICK=prepare: each run whose attributes have the key ``odd`` cannot be prepared, as by a fault in the program.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodepool_ocb.jigs.ssh.conversation import Conversation
from nodepool_ocb.jigs.ssh.pool import Pool
from nodepool_ocb.model.records import Json
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb_annealer.annealer import Annealer
from nodepool_ocb_annealer.main import main


def failing(method: Any) -> Any:
    """The same, and it raises what this host may raise at any time."""

    def fails(*arguments: Any) -> Any:
        if Path(os.environ["SICK_FILE"]).exists():
            raise OSError("no room at all")
        return method(*arguments)

    return fails


def stumbling(method: Any) -> Any:
    """The same, and it raises at certain attributes."""

    def stumbles(secrets: Secrets, attributes: Mapping[str, Json]) -> Any:
        if "odd" in attributes:
            raise KeyError("odd")
        return method(secrets, attributes)

    return stumbles


if __name__ == "__main__":
    if os.environ["SICK"] == "before":
        Pool.take = failing(Pool.take)  # type: ignore[method-assign]
    elif os.environ["SICK"] == "turn":
        Annealer._look = failing(Annealer._look)  # type: ignore[method-assign]
    elif os.environ["SICK"] == "prepare":
        Secrets.opened = stumbling(Secrets.opened)  # type: ignore[method-assign]
    else:
        Conversation.outcome = failing(Conversation.outcome)  # type: ignore[method-assign]
    main()
