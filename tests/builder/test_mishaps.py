"""What may happen to a builder besides its own death: locks taken away, providers that refuse or say nothing."""

from __future__ import annotations


from yard import Yard

from nodepool_ocb.model import Delete
from nodepool_ocb.store import paths


def test_a_build_whose_lock_somebody_took_away_takes_it_again(yard: Yard) -> None:
    yard.builder(yard.image("jammy", 3.0)).start()
    yard.until(lambda: yard.history(), "it is being built")
    lock = paths.build_lock("jammy")
    (contender,) = yard.session.children(lock) or ()
    yard.session.commit([Delete(f"{lock}/{contender}", 0)])
    yard.until_ready("jammy", seconds=10.0)
    assert len(yard.history()) == 1
    assert yard.view("jammy").holder is None
