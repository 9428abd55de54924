"""A request that launchers could not serve is refused before it is written."""

from __future__ import annotations

from tests.fixtures.commands import Ocb


def test_a_request_with_huge_texts_is_refused(ocb: Ocb) -> None:
    assert ocb("init").exit_code in (0, 4)
    answer = ocb("request", "create", "--label", "small", "--tenant", "x" * 100_000, "--provider", "y" * 100_000)
    assert answer.exit_code != 0
    assert "launchers serve at most" in answer.output
    assert ocb("request", "list", "-o", "json").stdout.strip() == "[]"
