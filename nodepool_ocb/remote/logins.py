"""Login and logout: a token is checked by the server that it is for, and stored with the cluster of the server."""

from __future__ import annotations

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.tokens import damage, split
from nodepool_ocb.operations.operation import Call
from nodepool_ocb.operations.performer import Caller
from nodepool_ocb.operations.tokens.reading import TokenShow
from nodepool_ocb.remote import tokens
from nodepool_ocb.remote.address import parse
from nodepool_ocb.remote.performer import RemotePerformer
from nodepool_ocb.remote.tokens import StoredToken
from nodepool_ocb.views.tokens import TokenRow


def log_in(call: Call, caller: Caller, url: str, token: str, ca: str | None) -> TokenRow:
    """The token as its server knows it; it is stored then. Raises Invalid, Unavailable, or Denied for a wrong token."""
    address, found = parse(url), split(token)
    if found is None:
        fault = damage(token) or "this is no token"
        raise Invalid(f"{fault}; a token looks like ocb_ID_SECRET, and `nodepool-ocb token create` makes one")
    used = RemotePerformer(call, caller, address, StoredToken(token=token, ca=ca))
    row = used.perform(TokenShow(token=found[0])).answer
    tokens.keep(address.url, StoredToken(token=token, ca=ca, cluster=used.cluster))
    return row


def log_out(url: str) -> str:
    """A sentence about the result. Raises Invalid."""
    address = parse(url)
    if tokens.forget(address.url):
        return f"the token for {address.url} is deleted from this host"
    return f"there is no token for {address.url} on this host; nothing changed"
