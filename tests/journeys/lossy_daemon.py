"""A daemon that loses the answer to each of its transactions: python lossy_daemon.py annealer|builder ...

The environment says where the other writer connects (RIVAL), how it comes first (HOW), and where the reports go (LEDGER).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb_annealer.main import main as annealer
from nodepool_ocb_builder.main import main as builder

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.journeys.lost_answers import Ledger, Rival

if __name__ == "__main__":
    kind = sys.argv.pop(1)
    rival = ZooKeeperSettings(hosts=os.environ["RIVAL"], session_timeout_seconds=30.0)
    with Ledger(rival, Rival(os.environ["HOW"]), Path(os.environ["LEDGER"]), overwrites=False) as ledger:
        ledger.about = kind
        with ledger.watch():
            (annealer if kind == "annealer" else builder)()
