"""Every exception that this project raises on purpose; the command line turns each into its exit code.

A message names the thing and the next step. Expected outcomes (a jig that failed, a machine that does not
answer) are values, not exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final


class OcbError(Exception):
    """The root of the family; ``exit_code`` is the exit code of the command line."""

    exit_code = 1


def reason_of(error: BaseException) -> str:
    """The text of an exception; if its class is not one of this project, that stands first.

    >>> reason_of(ValueError("no luck")), reason_of(OcbError("no key is known"))
    ('ValueError: no luck', 'no key is known')
    """
    return str(error) if isinstance(error, OcbError) else f"{type(error).__name__}: {error}"


#: Faults of one document that are said, and letters of each: a small document can have a hundred thousand.
SAID: Final = 200
LETTERS: Final = 2000


def _bounded(problem: str) -> str:
    """Its beginning and its end, where it is long.

    >>> len(_bounded("x" * 100_000))
    2005
    """
    half = LETTERS // 2
    return problem if len(problem) <= LETTERS else f"{problem[:half]} ... {problem[-half:]}"


def bounded(sentences: Sequence[str], of: str = "faults") -> tuple[str, ...]:
    """The first sentences, each with its beginning and its end, and how many more there are.

    >>> bounded(["a", "b"]), bounded(["a"] * 205, "warnings")[-1]
    (('a', 'b'), '... and 5 more warnings')
    """
    more = len(sentences) - SAID
    said = tuple(map(_bounded, sentences[:SAID]))
    return said if more <= 0 else (*said, f"... and {more} more {of}")


class Unread(Exception):
    """A decision asks for a record that the part of the tree that was read does not have; no person sees it.

    ``family``: the noderole or the cluster with children that were not looked up. The performer reads more, and decides again.
    """

    def __init__(self, text: str, family: str | None = None) -> None:
        super().__init__(text)
        self.family = family


class Invalid(OcbError):
    """A document, a configuration or a value is wrong; ``problems`` holds one sentence for each fault.

    Each problem reads ``FILE:LINE: PATH: what is wrong; what to do``, as far as these are known.
    """

    def __init__(self, problems: Sequence[str] | str) -> None:
        found = (problems,) if isinstance(problems, str) else tuple(problems)
        self.problems: tuple[str, ...] = tuple(map(_bounded, found))
        super().__init__("\n".join(bounded(self.problems)))


class Ambiguous(Invalid):
    """A call leaves open which record it means; the command line refuses it as a wrong usage."""


class EndPassed(Invalid):
    """The end that a call gives to a pause is not in the future."""


class TooLarge(Invalid):
    """Data exceeds the limit of a znode or a transaction."""


class Unreadable(Invalid):
    """The data in the znode ``path`` cannot be read."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


class Spoiled(Unreadable):
    """The attributes in the znode ``path`` cannot be read."""


class NotFound(OcbError):
    """The thing that was named does not exist."""

    exit_code = 3


class Conflict(OcbError):
    """The request contradicts the records that exist."""

    exit_code = 4


class Stale(Conflict):
    """A znode has another version, is gone or exists already, so a transaction was refused whole; ``path`` names it.

    ``absent``: the znode, or the parent of the znode to create, does not exist.
    """

    def __init__(self, message: str, path: str = "", *, absent: bool = False) -> None:
        super().__init__(message)
        self.path = path
        self.absent = absent


class VersionDiffers(Conflict):
    """A record has another version than the call demands."""


class VersionLacking(Invalid):
    """A write to an existing record came without the version that it was decided from."""

    exit_code = 4


class NameTaken(Conflict):
    """Another daemon is registered under our name, and its session is not over. ``wait_seconds`` is the time until its
    session ends if it is dead: we may be its successor.
    """

    def __init__(self, message: str, wait_seconds: float) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class TimedOut(OcbError):
    """A deadline passed; the awaited event may still happen."""

    exit_code = 5


class InError(OcbError):
    """The awaited thing ended in error, or cannot end well any more."""

    exit_code = 6


class Unavailable(OcbError):
    """ZooKeeper cannot be reached, or this session is over: nothing was written."""

    exit_code = 7


class TooMany(Unavailable):
    """This caller has as many requests under way as it may; nothing was written."""


class OutcomeUnknown(Unavailable):
    """The connection broke while a transaction was under way: it may have been applied; read before writing."""


class Denied(OcbError):
    """ZooKeeper refuses the request of this identity."""

    exit_code = 8


class Unauthorized(Denied):
    """No valid token came with a request to the API."""


class NoCluster(OcbError):
    """There is no cluster at this place in ZooKeeper, or another one than this daemon belongs to: nothing was changed."""

    exit_code = 9
