"""A machine loses its state directory while an annealer is in doubt about the run that goes on there."""

from __future__ import annotations

from nodepool_ocb.model.records import State
from tests.journeys.fleet import Fleet
from tests.journeys.history import Event as Noted

#: A runner that answers an order with a word that no runner says; the state directory is lost meanwhile.
LIAR = (
    r'printf "\n%s READY\n" "$OCB_TOKEN"; read -r order; mv "$1" "${1%/*}/lost-0"; '
    r'printf "\n%s DANCE\n" "$OCB_TOKEN"; cat'
)


def test_a_run_in_doubt_is_lost_and_its_noderole_runs_anew_under_another_name(fleet: Fleet) -> None:
    fqdn = fleet.nodes[0]
    turns = 'if [ ! -e "$home/first" ]; then : >"$home/first"; sleep 300; fi'
    fleet.add_role("setup", fleet.work(0.0, turns, retries=1, backoff_seconds=0.1))
    noderole = fleet.bind("setup", fqdn)
    fleet.doomed.add(fqdn)  # its history of the lost run is gone: the lock of the scripts tells of two at once
    fleet.annealer().begin()
    state = fleet.farm.state_dir(fqdn)
    fleet.until(lambda: [*state.glob("runs/*.followed")], "the output is followed")
    (runner,) = state.glob("runner-*/runner")
    another = runner.with_name("another")
    another.write_text(LIAR)
    another.replace(runner)
    fleet.farm.cut(0)
    fleet.until_state(noderole, State.ACTIVE, 60.0)
    assert len(fleet.farm.memories(fqdn)) == 2, "the liar was asked"
    started = [entry.run for entry in fleet.entries() if entry.event is Noted.STARTED]
    assert len(started) == 2
    assert not fleet.faults()
