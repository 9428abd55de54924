"""Documents that a server keeps: those that were used last, within a bound of bytes."""

from __future__ import annotations

from nodepool_ocb.api.memory.documents import OVERHEAD_BYTES, KeptDocuments

SIZE = 100
PIECE = bytes(SIZE)


def kept(documents: KeptDocuments, *requests: str) -> list[bool]:
    return [documents.get(each, "1", 0.0) is not None for each in requests]


def full() -> KeptDocuments:
    """With two documents, which fill it."""
    made = KeptDocuments(2 * (SIZE + OVERHEAD_BYTES))
    made.keep("/a", "1", PIECE)
    made.keep("/b", "1", PIECE)
    return made


def test_the_document_that_was_not_used_for_longest_makes_room() -> None:
    documents = full()
    assert kept(documents, "/a") == [True]
    documents.keep("/c", "1", PIECE)
    assert kept(documents, "/a", "/b", "/c") == [True, False, True]


def test_a_document_larger_than_all_room_is_not_kept_and_moves_no_other() -> None:
    documents = full()
    documents.keep("/c", "1", bytes(3 * (SIZE + OVERHEAD_BYTES)))
    assert kept(documents, "/a", "/b", "/c") == [True, True, False]


def test_a_new_version_takes_the_room_of_the_old_one() -> None:
    documents = full()
    for _ in range(3):
        documents.keep("/b", "1", PIECE)
    assert kept(documents, "/a", "/b") == [True, True]


def test_an_address_with_half_a_letter_is_an_address() -> None:
    documents = full()
    documents.keep("/\ud800", "1", PIECE)
    assert kept(documents, "/\ud800", "/a") == [True, False]
