"""``token list`` and ``token show``."""

from __future__ import annotations

from nodepool_ocb.operations.operation import Note, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.tokens import FoundTokens, ReadTokens
from nodepool_ocb.operations.tokens.finding import token_of
from nodepool_ocb.views import tokens as shown
from nodepool_ocb.views.tokens import TokenRow


class TokenList(Operation[list[TokenRow]], frozen=True, kw_only=True):
    """All tokens, with their last use. A note names each record that cannot be read."""

    noun = "token"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadTokens,)

    def decide(self, situation: Situation) -> Steps[list[TokenRow]]:
        found: FoundTokens = yield from ReadTokens()
        for reason in found.unread.values():
            yield Note(f"warning: this token opens nothing: {reason}")
        return shown.rows({id: stored.record for id, stored in found.readable.items()}, situation.now)


class TokenShow(Operation[TokenRow], frozen=True, kw_only=True):
    """One token, by its id."""

    noun = "token"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadTokens,)

    token: str  # its id

    def decide(self, situation: Situation) -> Steps[TokenRow]:
        found = yield from ReadTokens()
        return shown.row(self.token, token_of(found, self.token).record, situation.now)
