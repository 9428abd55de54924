"""``token revoke``."""

from __future__ import annotations

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Delete
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.tokens import ReadTokens
from nodepool_ocb.operations.tokens.finding import token_of


class TokenRevoke(Operation[Explained], frozen=True, kw_only=True):
    """Delete tokens: servers of the API refuse them from the next request on."""

    noun = "token"
    verb = "revoke"
    right = Right.ADMIN
    reads = (ReadTokens,)
    writes = ("token",)

    tokens: tuple[str, ...]  # ids

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        found = yield from ReadTokens()
        yield [Delete(paths.token(id), token_of(found, id).version) for id in dict.fromkeys(self.tokens)]
        return Explained()
