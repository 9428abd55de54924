"""A moment in an answer is shown as a time or an age, and not as seconds."""

from __future__ import annotations

from nodepool_ocb.cli.kit import output
from nodepool_ocb.model.installation import Installation, InstallStep
from nodepool_ocb.views.provisioning import installations

MOMENT = 1_900_000_000.5


def test_an_installation_shows_times() -> None:
    record = Installation(
        noderole="os@n", generation=1, run="r", epoch=1, since=MOMENT, started=MOMENT, deadline=MOMENT, nonce="0" * 32,
        token_digest="0" * 64, step=InstallStep.REBOOTING,
    )  # fmt: skip
    found = output.public(installations.document("n", record, under_way=True))
    shown = [output.cell(name, value).plain for name, value in found.items()]
    assert not [each for each in shown if each.startswith("19000000")], shown
