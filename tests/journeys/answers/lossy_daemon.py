"""A builder that loses the answers to its transactions: python lossy_daemon.py builder ...

The environment says where the other writer connects (RIVAL), and where the reports go (LEDGER).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb_builder.main import main

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.journeys.answers.lost_answers import Ledger, Rival, Sparing

#: Another registration under a builder's id keeps it from working, as it must.
SPARED = ("/nodepool/daemons",)

if __name__ == "__main__":
    about = sys.argv.pop(1)
    rival = ZooKeeperSettings(hosts=os.environ["RIVAL"], session_timeout_seconds=30.0)
    reports = Path(os.environ["LEDGER"])
    with Ledger(rival, Rival.TOUCH, reports, sparing=Sparing.SITE, spared=SPARED) as ledger:
        ledger.about = about
        with ledger.watch():
            main()
