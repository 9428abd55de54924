"""The caller of a request, and the operations that its token opens. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.errors import Denied
from nodepool_ocb.model.tokens import Token, TokenRole
from nodepool_ocb.operations.limits.narrowing import Limits
from nodepool_ocb.operations.nodes.changing import NodeAlive
from nodepool_ocb.operations.operation import Operation, Right
from nodepool_ocb.operations.tokens.reading import TokenShow

#: In the state of a request: what to call when the holder of its token is known, and whether its answer ends the connection.
KNOWN: Final = "ocb_known"
CLOSES: Final = "ocb_closes"
#: In the state of a request: the certificate (DER) of its client, which the server has verified; None without one.
CERTIFICATE: Final = "ocb_certificate"
#: The holder of a request without a credential, at a server with ``api.open_reads``.
ANYONE: Final = Token(name="anyone", role=TokenRole.VIEWER, digest="0" * 64)
#: The rights that a role of people has.
RIGHTS: Final[Mapping[TokenRole, frozenset[Right]]] = {
    TokenRole.VIEWER: frozenset({Right.VIEWER}),
    TokenRole.OPERATOR: frozenset({Right.VIEWER, Right.OPERATOR}),
    TokenRole.ADMIN: frozenset(Right),
}
#: Those of a machine that waits for its node: its deployment is judged when a rule makes the node.
OF_WAITING: Final = frozenset({"RegistrationCreate", "RegistrationPoll"})
#: The operations of a machine's token, by class.
OF_MACHINES: Final[Mapping[TokenRole, frozenset[str]]] = {
    TokenRole.JOIN: frozenset({"NodeCreate", *OF_WAITING}),
    TokenRole.REGISTER: OF_WAITING,
    TokenRole.NODE: frozenset(
        {
            *("InstallationReport", "InstallationShow", "NodeAlive", "NodeGoingDown", "NodeInventory", "NodeMachine"),
            "NodeShow",
        }
    ),
    TokenRole.BOOT: frozenset({"InstallationIdentity"}),
}


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of a token, at the address that a request came from."""

    id: str
    token: Token
    address: str
    claims: Mapping[str, Any] | None = None  # of a person with a login of an issuer

    @property
    def limits(self) -> Limits | None:
        """None for a token that opens the whole cluster."""
        token = self.token
        return Limits(token.deployments, token.selector, token.life, token.created) if token.limited else None


def require_right(actor: Actor, operation: type[Operation[Any]]) -> None:
    """Raises Denied unless the role opens the operation. Each role opens ``token show``, see ``require_own_token``."""
    if operation is not TokenShow:
        _require_right(actor, operation)


def shows_own_token(actor: Actor, operation: Operation[Any]) -> bool:
    """Whether it shows the caller its own token, as a login does."""
    return isinstance(operation, TokenShow) and operation.token == actor.id


def require_own_token(actor: Actor, operation: Operation[Any]) -> None:
    """Raises Denied if the operation shows another token, and the role does not open that."""
    if isinstance(operation, TokenShow) and not shows_own_token(actor, operation):
        _require_right(actor, TokenShow)


def _require_right(actor: Actor, operation: type[Operation[Any]]) -> None:
    role = actor.token.role
    if operation.__name__ in OF_MACHINES.get(role, ()) or operation.right in RIGHTS.get(role, ()):
        return
    needs = "" if role in OF_MACHINES else f"; it needs role {operation.right}"
    raise Denied(
        f"token {actor.id} of {actor.token.name} has role {role}, which does not open `{operation.title()}`{needs}"
    )


def said_by_machine(actor: Actor, operation: Operation[Any]) -> Operation[Any]:
    """The operation; of a machine's token, the machine says so itself, and a person's mark stays."""
    if actor.token.role is TokenRole.NODE and isinstance(operation, NodeAlive):
        return msgspec.structs.replace(operation, as_machine=True)
    return operation


def require_reveal(actor: Actor, operation: Operation[Any]) -> None:
    """Raises Denied if the operation reveals secrets, or lets another token reveal them, and this token may not."""
    if getattr(operation, "reveal", False) and not actor.token.reveal:
        raise Denied(f"token {actor.id} of {actor.token.name} may not reveal secrets; have one made with --reveal")


def require_own_deployment(actor: Actor, operation: Operation[Any]) -> None:
    """Raises Denied if a token of role join would create a node outside its deployments."""
    if actor.token.role is not TokenRole.JOIN or not actor.token.deployments or shows_own_token(actor, operation):
        return
    if type(operation).__name__ in OF_WAITING:
        return
    node = getattr(operation, "node", None)
    if getattr(node, "deployment", None) not in actor.token.deployments:
        raise Denied(f"token {actor.id} creates nodes only in {', '.join(actor.token.deployments)}")
