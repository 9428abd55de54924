"""What no test noticed once is noticed now: each break is put into a copy of the product, and its test fails there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys import breaks
from tests.journeys.breaks import BREAKS


@pytest.mark.parametrize("name", BREAKS)
def test_the_place_of_a_break_and_the_test_that_notices_it_are_there(name: str) -> None:
    broken = BREAKS[name]
    assert len(breaks.places(broken)) == 1, "the code has moved on: say in breaks.py what breaks it now"
    assert broken.test in breaks.tests(broken.test.split("::")[0])


@pytest.mark.long
@pytest.mark.parametrize("name", BREAKS)
def test_a_break_is_noticed_by_its_test(name: str, tmp_path: Path) -> None:
    folder = breaks.copy(tmp_path / "copy")
    breaks.change(folder, BREAKS[name])
    done = breaks.run(folder, BREAKS[name].test)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout, done.stdout


@pytest.mark.long
@pytest.mark.parametrize("test", sorted({broken.test for broken in BREAKS.values()}))
def test_the_same_test_passes_in_a_copy_that_is_whole(test: str, tmp_path: Path) -> None:
    done = breaks.run(breaks.copy(tmp_path / "copy"), test)
    assert done.returncode == 0, done.stdout + done.stderr
