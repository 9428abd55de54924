"""The sentences after a commit."""

from __future__ import annotations

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.operations.commits.committing import Committed
from nodepool_ocb.operations.noderoles.acting import NoderoleCommitOutdated


def say_what_is_left(committed: Committed, *, waited: bool) -> None:
    """Outdated noderoles that the commit left, and those that became outdated while others ran."""
    for sentence in committed.left(waited=waited):
        output.say(sentence)
    if waited and committed.concerned:
        for sentence in perform(NoderoleCommitOutdated(concerned=committed.concerned)).answer:
            output.say(sentence)
