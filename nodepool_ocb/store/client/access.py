"""The identity of this process in ZooKeeper, the protection of its connection, and the ACL of each znode. No other
module makes an ACL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from nodepool_ocb.errors import Denied, Invalid
from nodepool_ocb.model import ensemble, paths, rights
from nodepool_ocb.model.ranges import is_loopback
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store.client import frames
from nodepool_ocb.store.client import tls as tls_files
from nodepool_ocb.store.client.frames import AclGrant
from nodepool_ocb.store.client.tree import NATIVE, ImageTree

if TYPE_CHECKING:
    from nodepool_ocb.config import ZooKeeperSettings

_BITS: Final = {"r": 1, "w": 2, "c": 4, "d": 8, "a": 16}


def refuse_plain_text(settings: ZooKeeperSettings) -> None:
    """Raises Invalid where names, attributes and passwords would cross a network in the clear, or no server is named."""
    try:
        servers = ensemble.parse(settings.hosts).servers
    except Invalid as odd:
        raise Invalid(f"zookeeper.hosts: {odd}") from odd
    if settings.tls is not None or settings.allow_plaintext:
        return
    for host, _ in servers:
        if not is_loopback(host):
            raise Invalid(
                f"zookeeper.hosts: {host} is remote, and the connection would not be encrypted;"
                " set zookeeper.tls, or zookeeper.allow_plaintext: true"
            )


_EVERYONE: Final = AclGrant(sum(_BITS.values()), "world", "anyone")
_OPEN: Final = "open"  # no row of the table


class Acls:
    """The ACL of every znode: from ``rights.TABLE`` where each kind has a user, else the same for all znodes.

    Without such users, the creator of a znode has all rights, or everyone has them. If a username is configured, the
    grant names that user: the scheme ``auth`` would also grant rights to other holders of the same certificate.
    In a tree of another product, everyone has all rights where that product works.
    """

    def __init__(self, settings: ZooKeeperSettings, tree: ImageTree = NATIVE) -> None:
        self._tree = tree
        self._users = settings.names()
        creator = settings.acl == "creator" if settings.acl else settings.username is not None
        maker = ("auth", "") if settings.username is None else ("sasl", settings.username)
        self._same = AclGrant(bits(rights.ALL), *(maker if creator else ("world", "anyone")))
        self._known: dict[str, bytes] = {}  # by the row's path

    @property
    def comparable(self) -> bool:
        """Whether the expected ACL is known. With the scheme ``auth``, the name in the certificate is known to
        ZooKeeper alone.
        """
        return bool(self._users) or self._same.scheme != "auth"

    def of(self, path: str) -> tuple[AclGrant, ...]:
        """The grants for the znode at ``path``, without the chroot; one user may stand for several kinds."""
        if self._tree.open(path):
            return (_EVERYONE,)
        if not self._users:
            return (self._same,)
        row, granted = rights.row(path), dict.fromkeys(self._users.values(), 0)
        for kind, name in self._users.items():
            granted[name] |= bits(row.of(kind))
        return tuple(AclGrant(each, "sasl", name) for name, each in granted.items() if each)

    def packed(self, path: str) -> bytes:
        """The same as ZooKeeper takes it."""
        row = rights.row(path).path if self._users else ""
        row = _OPEN if self._tree.open(path) else row
        if row not in self._known:
            self._known[row] = frames.access(self.of(path))
        return self._known[row]


def bits(letters: str) -> int:
    """ZooKeeper's number for rights.

    >>> bits("r"), bits("cdrwa")
    (1, 31)
    """
    return sum(_BITS[letter] for letter in letters)


def words(acl: Sequence[AclGrant]) -> list[str]:
    """The rights as ZooKeeper's own shell writes them.

    >>> words([AclGrant(1, "sasl", "builder"), AclGrant(31, "sasl", "ocb")])
    ['sasl:builder:r', 'sasl:ocb:cdrwa']
    """
    grants = sorted(acl, key=lambda each: each[1:])
    return [
        f"{scheme}:{identity}:" + "".join(letter for letter in rights.ALL if granted & _BITS[letter])
        for granted, scheme, identity in grants
    ]


def refuse_all_but_people(settings: ZooKeeperSettings) -> None:
    """Raises Denied if this user is not that of people. It would lose the right to change ACLs with the first one that
    it sets.
    """
    names = settings.names()
    if names and settings.username != names[ClientKind.PEOPLE]:
        raise Denied(
            f"zookeeper.username: {settings.username or 'no user'} may not change the rights of {paths.ROOT}; set it to"
            f" {names[ClientKind.PEOPLE]}, the user of people (zookeeper.users)"
        )


def clock(settings: ZooKeeperSettings) -> str:
    """The znode that this user asks the time with: the first that it may write."""
    kinds = [kind for kind, name in settings.names().items() if name == settings.username]
    if kinds and not any("w" in rights.row(paths.CLOCK).of(kind) for kind in kinds):
        return paths.POOL_CLOCK
    return paths.CLOCK


def may(settings: ZooKeeperSettings, path: str, letter: str) -> bool:
    """Whether this user has a right at a place; True if the kinds of clients have no users."""
    names = settings.names()
    return not names or any(
        letter in rights.row(path).of(kind) for kind, name in names.items() if name == settings.username
    )


def refuse_another_kind(settings: ZooKeeperSettings, kind: ClientKind) -> None:
    """Raises Invalid where users are configured and a daemon of this kind would come as another."""
    names = settings.names()
    if names and kind not in names:
        raise Invalid(f"zookeeper.users: there is no {kind}, so no {kind} may do anything; add `{kind}: NAME`")
    if names and settings.username != names[kind]:
        raise Invalid(
            f"zookeeper.username: {settings.username or 'no user'} is not the user of this {kind}, which is"
            f" {names[kind]} (zookeeper.users); set username and password"
        )


def options(settings: ZooKeeperSettings) -> dict[str, Any]:
    """The options for kazoo's client; raises Invalid for a TLS file that cannot be used, and for hosts that cannot be
    parsed.
    """
    options: dict[str, Any] = {
        "hosts": str(ensemble.parse(settings.hosts)),
        "timeout": settings.session_timeout_seconds,
    }
    if settings.username is not None:
        options["sasl_options"] = {
            "mechanism": "DIGEST-MD5", "username": settings.username, "password": settings.password
        }  # fmt: skip
    if settings.tls is not None:
        tls = settings.tls
        options |= {"use_ssl": True, "ca": tls.ca, "certfile": tls.cert, "keyfile": tls.key, "verify_certs": tls.verify}
        tls_files.context(tls.ca, tls.cert, tls.key, tls.verify)  # raises now rather than with the first connection
    return options
