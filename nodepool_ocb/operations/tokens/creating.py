"""``token create``: a credential of the API. Its secret is in the answer alone."""

from __future__ import annotations

from nodepool_ocb.engine import selection
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.records import Create
from nodepool_ocb.model.tokens import Token, TokenRole
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.tokens import DrawSecret, EnsureTokens, ReadTokens
from nodepool_ocb.operations.reads.world import ReadWorld


class TokenCreated(Explained, frozen=True, kw_only=True):
    """The answer; ``token`` is None in a dry run, and for a certificate. The secret cannot be read again."""

    id: str | None = None
    token: str | None = None


class TokenCreate(Operation[TokenCreated], frozen=True, kw_only=True):
    """Create a token. With deployments or a selector it opens only the nodes and noderoles that they mean."""

    noun = "token"
    verb = "create"
    right = Right.ADMIN
    reads = (ReadWorld, DrawSecret, ReadTokens, EnsureTokens)
    writes = ("token",)
    confidential = True

    name: str  # of the person or the program
    role: TokenRole = TokenRole.VIEWER
    deployments: tuple[str, ...] = ()
    selector: str | None = None
    reveal: bool = False
    seconds: float | None = None  # until its end; None: without an end
    certificate: str | None = None  # PEM: a client certificate that opens it, instead of a secret

    def decide(self, situation: Situation) -> Steps[TokenCreated]:
        self._refuse_oddities()
        if self.deployments:
            world = yield from ReadWorld()
            for each in self.deployments:
                deployment_of(world, each)
        id, secret, token = yield from self._credential()
        record = Token(
            name=self.name,
            role=self.role,
            digest=tokens.digest(secret),
            certificate=self.certificate is not None,
            deployments=tuple(sorted({*self.deployments})),
            selector=self.selector,
            reveal=self.reveal,
            created=situation.now,
            by=situation.by,
            expires=None if self.seconds is None else situation.now + self.seconds,
        )
        yield from EnsureTokens()
        yield [Create(paths.token(id), record)]
        return TokenCreated() if situation.call.dry_run else TokenCreated(id=id, token=token)

    def _credential(self) -> Steps[tuple[str, str, str | None]]:
        """The id, the secret, and the text of the token; a certificate needs no text. Raises Invalid or Conflict."""
        if self.certificate is None:
            drawn = yield from DrawSecret()
            token = tokens.text(drawn.id, drawn.secret)
            return drawn.id, (tokens.split(token) or ("", ""))[1], token
        try:
            id, secret = tokens.of_certificate(tokens.der_of(self.certificate))
        except ValueError as error:
            raise Invalid(f"the certificate cannot be read: {error}") from None
        known = yield from ReadTokens()
        if id in known.readable:
            raise Conflict(f"token {id} has this certificate already; revoke it first: nodepool-ocb token revoke {id}")
        return id, secret, None

    def _refuse_oddities(self) -> None:
        """Raises Invalid for a name, limits or an end that no token may have."""
        if not self.name or len(self.name) > tokens.LONGEST_NAME or not self.name.isprintable() or " " in self.name:
            raise Invalid(
                f"{self.name[:100]!r} is no name of a token: write one word of at most {tokens.LONGEST_NAME} characters"
            )
        if self.name.startswith(tokens.ISSUED):
            raise Invalid(
                f"names that begin with {tokens.ISSUED} are those of people with a login of an issuer; take another"
            )
        if self.selector is not None:
            selection.parse(self.selector)
        if self.seconds is not None and self.seconds <= 0:
            raise Invalid(f"an end in {self.seconds:g} seconds is in the past; give, for example, --expires 30d")
        if self.role is TokenRole.BOOT:
            raise Invalid("a token of role boot is made by an installation alone; take another role")
        if self.role is TokenRole.NODE and not (self.selector or self.deployments):
            raise Invalid("a token of role node needs limits; give -l with the name of the node")
        if self.role in (TokenRole.JOIN, TokenRole.REGISTER) and self.selector is not None:
            raise Invalid(
                f"a token of role {self.role} creates nodes that no selector can mean yet; give --deployment instead"
            )
        if self.reveal and self.role in (TokenRole.JOIN, TokenRole.REGISTER, TokenRole.NODE):
            raise Invalid(f"a token of role {self.role} reveals no secrets; leave out --reveal")
