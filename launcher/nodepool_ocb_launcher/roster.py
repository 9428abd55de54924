"""The nodes of /ocb that belong to launched nodes, as works see them."""

from __future__ import annotations

from nodepool_ocb.pool.launching import RolesSight


class Roster:
    """Workers call it; the turn answers."""

    def enrol(self, fqdn: str) -> RolesSight | str | None:
        """The noderoles of the node; the reason why it cannot be created; None while the turn creates it."""
        return f"{fqdn} cannot be created: this version gives launched nodes no roles; remove `anneal` of the label"

    def dismiss(self, fqdn: str, node: str) -> str | None:
        """None when the node is gone, else the cause of the wait."""
        del fqdn, node
        return None
