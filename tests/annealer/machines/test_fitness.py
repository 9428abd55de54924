"""Whether an annealer is ready: by what it failed at itself."""

from __future__ import annotations

from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb_annealer.machines.fitness import Fitness


def proven() -> Fitness:
    standing = Fitness()
    standing.well()
    return standing


def test_one_machine_alone_makes_no_trouble_of_an_annealer_that_has_reached_any() -> None:
    standing = proven()
    for _ in range(9):
        standing.refuted("n1", "connect: no route")
        standing.unable("n1", "odd")
    assert standing.trouble is None


def test_one_is_enough_where_it_never_reached_any() -> None:
    standing = Fitness()
    standing.refuted("n1", "authenticate: as root: Authentication failed")
    assert standing.trouble is not None
    assert standing.trouble.startswith("no machine takes my key, and other annealers reach them: authenticate:")


def test_two_in_a_row_that_others_reach_make_a_trouble_until_a_machine_lets_it_in() -> None:
    standing = proven()
    standing.refuted("n1", "resolve: n1: unknown")
    standing.refuted("n2", "resolve: n2: unknown")
    assert standing.trouble == "no machine answers me, and other annealers reach them: resolve: n2: unknown (n2)"
    standing.unreached()
    assert standing.trouble is not None
    standing.well()
    assert standing.trouble is None
    standing.refuted("n3", "resolve: n3: unknown")
    assert standing.trouble is None


def test_two_that_cannot_be_asked_make_a_trouble_until_one_can() -> None:
    standing = proven()
    standing.unable("n1", "Too many open files")
    standing.unable("n2", "Too many open files")
    assert "Too many open files" in (standing.trouble or "")
    standing.unreached()
    assert standing.trouble is None


def test_one_reason_at_machine_after_machine_is_one_sentence() -> None:
    """Each other sentence is written for all annealers, and logged."""
    standing = proven()
    said = set()
    for fqdn in ("n1", "n2", "n3", "n1", "n4", "n2"):
        standing.unable(fqdn, "Too many open files")
        said.add(standing.trouble)
    assert said == {None, "this host fails to ask one machine after another: Too many open files (n1)"}
    standing.unable("n3", "no memory")
    assert (standing.trouble or "").endswith("no memory (n3)")


def test_a_fault_of_the_host_is_a_trouble_at_once_until_a_new_connection_is_made() -> None:
    standing = proven()
    standing.unable("n1", "resolve: Temporary failure", certain=True)
    assert standing.trouble == "this host fails to reach machines: resolve: Temporary failure (n1)"
    assert standing.failing == "n1"
    standing.unreached()
    standing.well("n2", fresh=False)
    assert standing.trouble is not None, "an old connection proves nothing"
    standing.well("n2", fresh=True)
    assert standing.trouble is None


def test_a_node_that_alone_cannot_be_asked_makes_one_trouble() -> None:
    """Its name alone is broken: the others are worked on."""
    standing = proven()
    standing.unable("n1", "resolve: Temporary failure", certain=True)
    standing.well("n2")
    standing.unable("n1", "resolve: Temporary failure", certain=True)
    assert standing.trouble is None
    standing.well("n1")
    standing.unable("n1", "resolve: Temporary failure", certain=True)
    assert standing.trouble is not None


REFUSED = "authenticate: as root: Authentication failed"


def test_a_node_that_is_asked_no_more_makes_no_trouble_and_its_name_begins_anew() -> None:
    standing = proven()
    standing.unable("n1", "resolve: Temporary failure in name resolution", certain=True)
    standing.forget("n1")
    assert (standing.trouble, standing.failing) == (None, None)
    standing.unable("n1", "connect: Operation not permitted", certain=True)
    standing.well("n2")
    standing.forget("n1")
    standing.unable("n1", "connect: Operation not permitted", certain=True)
    assert standing.trouble is not None, "it is another machine than the one that was left apart"


def refused(standing: Fitness, fqdn: str) -> bool:
    """Whether it may be our own fault, as far as that is known now."""
    standing.refused(fqdn, REFUSED)
    assert standing.doubtful(fqdn) is standing.doubtful(fqdn), "to ask changes nothing"
    return standing.doubtful(fqdn)


def test_two_machines_that_refuse_the_key_make_a_trouble_of_an_annealer_that_is_alone_and_never_reached_any() -> None:
    standing = Fitness()
    assert refused(standing, "n1"), "it is not known yet whose fault that is"
    assert standing.trouble is None
    assert refused(standing, "n2")
    assert standing.trouble == f"no machine takes my key: {REFUSED} (n1)"
    standing.unreached()
    assert standing.trouble is not None
    standing.well()
    assert standing.trouble is None
    assert not refused(standing, "n1"), "another took the key"


def test_one_machine_that_refuses_the_key_is_waited_with_for_a_while_only() -> None:
    standing = Fitness()
    assert [refused(standing, "n1") for _ in range(6)] == [True] * 4 + [False] * 2
    assert standing.trouble is None


def test_what_is_lacking_makes_a_trouble_until_a_machine_was_asked() -> None:
    standing = proven()
    standing.lacks("none of the key files exists")
    assert standing.trouble == "this host cannot ask machines: none of the key files exists"
    standing.unreached()
    assert standing.trouble is None


def test_the_rank_without_another_is_as_if_that_one_were_not_there() -> None:
    names = ["a", "b", "c"]
    alone = {name: Ranking(name) for name in names}
    for ranking in alone.values():
        ranking.among(names)
    for node in map(str, range(50)):
        for absent in names:
            ranks = sorted(alone[name].of(node, without=absent) for name in names if name != absent)
            assert ranks == [0, 1], (node, absent)
