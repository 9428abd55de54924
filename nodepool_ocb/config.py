"""The configuration: one YAML file, checked against the schema ``config.json``, with a default for everything.

It is looked for at ``/etc/nodepool-ocb/nodepool-ocb.yaml``, then ``~/.config/nodepool-ocb/nodepool-ocb.yaml``, unless
one is named. A relative file name in it counts from the file's directory. etc/nodepool-ocb.yaml explains each key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents.allowed import Allowed, keys
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import ensemble
from nodepool_ocb.model.rights import ClientKind

NAME: Final = "nodepool-ocb.yaml"
RECEIVER: Final = "https://HOST[:PORT]/PATH"
PLACES: Final = (Path("/etc/nodepool-ocb"), Path("~/.config/nodepool-ocb"))


class ConfigSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The common base of all parts of the configuration."""


class TlsSettings(ConfigSection, frozen=True, kw_only=True):
    """File names of PEM files; ``cert`` and ``key`` identify us where the server asks for it."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True


class UserSettings(ConfigSection, frozen=True, kw_only=True):
    """The name of each kind's user; None if there are no such clients. docs/security.md has the rights of each."""

    people: str
    annealer: str | None = None
    builder: str | None = None
    launcher: str | None = None
    api: str | None = None
    requester: str | None = None


class ZooKeeperSettings(ConfigSection, frozen=True, kw_only=True):
    """The ensemble, and our identity there. Plain text to another machine is refused unless allowed."""

    hosts: str = "127.0.0.1:2181"  # "host:port,host:port/chroot"
    session_timeout_seconds: float = 10.0
    tls: TlsSettings | None = None
    username: str | None = None
    password: str | None = None
    allow_plaintext: bool = False
    acl: Literal["creator", "open"] | None = None  # None: creator with a username, else open
    users: UserSettings | None = None  # instead of acl

    def names(self) -> Mapping[ClientKind, str]:
        """The user of each kind that has one; empty without ``users``."""
        named = {kind: getattr(self.users, kind, None) for kind in ClientKind}
        return {kind: name for kind, name in named.items() if name is not None}


class NodesSettings(ConfigSection, frozen=True, kw_only=True):
    """The defaults of new nodes."""

    available: bool = True  # annealers may work on it


class WebhookSettings(ConfigSection, frozen=True, kw_only=True):
    """Where entries of the journal are sent as they come. Each annealer that has it may be the one that sends."""

    url: str  # http or https; may be secret: ``receiver`` says as much of it as may be shown
    secret_file: str | None = None  # the key of signatures; None: nothing is signed


class AnnealerSettings(ConfigSection, frozen=True, kw_only=True):
    """How an annealer works."""

    slots: int = 10  # noderoles at a time (seed 000, "Delayed Jobs and Queuing")
    probe_seconds: float = 60.0  # between two looks at an idle machine
    dead_probe_seconds: float = 5.0  # the same, for a machine that did not answer
    sweep_seconds: float = 30.0  # between two comparisons of the cache with ZooKeeper
    drain_seconds: float = 0.5  # that running work may still take after SIGTERM before it is passed on
    steal_delay_seconds: float = 0.2  # that each rank waits for the one before it
    log_dir: str | None = "/var/log/nodepool-ocb"  # outputs of jigs; None: keep only the tails
    log_run_bytes: int = 16 << 20  # of one run's output
    log_keep: int = 10  # runs of a noderole
    log_keep_seconds: float = 30 * 86400.0
    log_total_bytes: int = 1 << 30  # of all outputs
    dhcp_listen_seconds: float = (
        600.0  # between two looks of an admin node for servers of DHCP that are not ours; 0: none
    )
    power_at_once: int = 4  # machines of a chassis that are switched at the same time
    power_gap_seconds: float = 1.0  # between two machines of a rack that are switched
    power_effect_seconds: float = 120.0  # from a command to a BMC to its effect, at most
    consoles: int = 64  # serial consoles of machines being installed that are read at the same time
    webhook: WebhookSettings | None = None


class BuilderSettings(ConfigSection, frozen=True, kw_only=True):
    """The settings of a builder. Its images and providers stand in the file ``nodepool``, in Nodepool's own keys."""

    nodepool: str = "nodepool.yaml"  # the file with diskimages and providers
    secure: str | None = None  # the file with keys that are laid over it: passwords
    build_workers: int = 1  # builds at a time
    upload_workers: int = 4  # uploads at a time
    labels: tuple[str, ...] = ()  # this builder's own: images may be pinned to builders that have one
    arch: str | None = None  # as `uname -m` says it; None: this machine's
    keep: int = 2  # ready builds of an image, with their uploads
    rebuild_spread: float = 0.1  # the share of an image's rebuild-age that is added to it at most, drawn for each build
    failed_keep_seconds: float = 86400.0  # that failed records stay, to be read
    gone_seconds: float = 3600.0  # before an image is built anew if only a missing builder could send its build
    orphan_grace_seconds: float = 3600.0  # that a file is seen without a record before it is removed
    sweep_seconds: float = 30.0  # between two readings of everything
    cleanup_seconds: float = 60.0  # between two searches for leftovers
    leak_seconds: float = 3600.0  # between two lists of a provider's objects
    free_bytes: int = 1 << 30  # of image and build directory, before a build begins
    drain_seconds: float = 20.0  # that a build or an upload may still take after SIGTERM
    retry_seconds: float = 60.0  # from a failed build or upload to the next; doubles, at most 60 times this
    listen: str | None = None  # HOST:PORT of a builder's pages; None: http.listen


class LauncherSettings(ConfigSection, frozen=True, kw_only=True):
    """The settings of a launcher. Its labels and providers stand in the file ``nodepool``, in Nodepool's own keys."""

    nodepool: str = "nodepool.yaml"  # the file with labels and providers; a builder of this host may read the same
    secure: str | None = None  # the file with keys that are laid over it: passwords
    launch_workers: int = 16  # launches at a time, for each provider
    delete_workers: int = 8  # deletions at a time, for each provider
    patience_seconds: float = 300.0  # that a request waits until it reserves capacity before newer ones of its tenant
    delete_seconds: float = 600.0  # that a deletion may take before another worker begins it anew
    quota_seconds: float = 300.0  # the age at which the quota of a provider is read again, if a request needs it
    leak_seconds: float = 600.0  # between two lists of a provider's machines
    sweep_seconds: float = 30.0  # between two readings of everything
    drain_seconds: float = 20.0  # that launches and deletions may still take after SIGTERM
    listen: str | None = None  # HOST:PORT of a launcher's pages; None: http.listen


class FuelSettings(ConfigSection, frozen=True, kw_only=True):
    """The names behind the numbers that clients of Fuel send; a number without an entry is a name itself."""

    clusters: Mapping[str, str] = {}  # number → deployment
    releases: Mapping[str, str] = {}  # number → release with a task list


class OidcRole(ConfigSection, frozen=True, kw_only=True):
    """The rights of holders of a claim value."""

    role: Literal["viewer", "operator", "admin"]
    deployments: tuple[str, ...] = ()  # with none and no selector: without limits
    selector: str | None = None  # of nodes and noderoles
    reveal: bool = False  # secrets in plain text may be read


class OidcSettings(ConfigSection, frozen=True, kw_only=True):
    """Logins of people by OpenID Connect; docs/people.md explains them."""

    issuer: str  # as its documents name it: https://HOST[:PORT][/PATH]
    client_id: str
    roles: Mapping[str, OidcRole]  # value of the claim → rights
    client_secret_file: str | None = None  # None: a public client
    audience: str | None = None  # of tokens that programs send; None: client_id
    claim: str = "groups"  # the claim with the values; a dot leads into an object
    name_claim: str = "preferred_username"  # that the journal names; sub where it is absent
    scopes: tuple[str, ...] = ("openid", "profile")
    url: str | None = None  # of the page, as browsers reach it, for the way back; None: that of the request
    ca: str | None = None  # PEM: the certificates that identify the issuer; None: those of the system


class ApiSettings(ConfigSection, frozen=True, kw_only=True):
    """The settings of a server of the API; ``url`` and ``ca`` are those of its clients on this host."""

    url: str | None = None  # the server at which commands perform operations; None: commands use ZooKeeper
    ca: str | None = None  # PEM: the certificates that identify that server; None: those of the system
    listen: str = "127.0.0.1:9480"  # HOST:PORT of the API; port 0 takes a free one and logs it
    cert: str | None = None  # PEM: the server's certificate with those above it; read again when it changes
    key: str | None = None
    allow_plaintext: bool = False  # tokens may cross a network unencrypted
    hosts: tuple[str, ...] = ()  # names by which clients reach it, beside addresses and localhost
    workers: int = 16  # operations at a time
    connections: int = 1000  # open ones, at most
    body_bytes: int = 10 << 20  # of a request, at most
    deadline_seconds: float = 60.0  # of a request that names none
    sweep_seconds: float = 30.0  # between two comparisons of the cache with ZooKeeper
    drain_seconds: float = 20.0  # that requests may still take after SIGTERM
    pages: str | None = None  # HOST:PORT of a server's pages; None: http.listen
    client_ca: str | None = None  # PEM: the authorities of certificates by which clients sign in; None: tokens alone
    open_reads: bool = False  # each request without a token reads as a viewer
    open_pages: bool = False  # the pages of Nodepool answer without a token
    fuel: FuelSettings = FuelSettings()
    oidc: OidcSettings | None = None  # None: tokens alone open the API


class SshSettings(ConfigSection, frozen=True, kw_only=True):
    """How machines are reached."""

    key_files: tuple[str, ...] = ("/etc/nodepool-ocb/id_ed25519",)
    first_contact: Literal["pin", "refuse"] = "pin"  # the reaction to a host key that is not known yet
    ping: bool = False  # probes ask for an ICMP echo first
    connect_timeout_seconds: float = 10.0
    idle_seconds: float = 60.0  # an unused connection is kept this long
    pool: int = 256  # open connections, at most
    state_dir: str = "/var/lib/nodepool-ocb"  # on the machine: its epoch, and its runs
    become: str | None = None  # on the machine: the command by which a login that is not root becomes root


class VaultSettings(ConfigSection, frozen=True, kw_only=True):
    """HashiCorp Vault, asked by HTTP for secrets of its KV engine, version 2."""

    address: str  # https://HOST:8200
    token_file: str
    mount: str = "secret"
    ca: str | None = None  # PEM; None: the authorities that this host trusts


class SecretsSettings(ConfigSection, frozen=True, kw_only=True):
    """The sources of keys and secrets; docs/security.md has the needs of each host."""

    key_file: str | None = None  # a key a line, the newest first; None: nothing is encrypted or decrypted here
    directory: str | None = None  # below which references ``file:`` are read; None: none is
    vault: VaultSettings | None = None


class TasksSettings(ConfigSection, frozen=True, kw_only=True):
    """The files of this host that tasks may read."""

    sources: tuple[str, ...] = ()  # the directories from which copy_files and sync read; none by default


class HttpSettings(ConfigSection, frozen=True, kw_only=True):
    """``/metrics``, ``/health/live`` and ``/health/ready``, a builder's ``/logs/``; port 0 takes a free one and logs it.

    A builder that shares its host with an annealer has a port of its own: ``builder.listen``.
    """

    listen: str | None = None


class LogSettings(ConfigSection, frozen=True, kw_only=True):
    """The level and the format of the log on stderr."""

    format: Literal["plain", "json"] = "plain"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(ConfigSection, frozen=True, kw_only=True):
    """The whole configuration."""

    zookeeper: ZooKeeperSettings = ZooKeeperSettings()
    admin_domain: str | None = None  # new nodes must be inside it; None: the one noted in ZooKeeper, or any
    layout: Literal["native", "nodepool"] = "native"  # of the records of images; nodepool: the tree of Nodepool 11
    nodes: NodesSettings = NodesSettings()
    annealer: AnnealerSettings = AnnealerSettings()
    builder: BuilderSettings = BuilderSettings()
    launcher: LauncherSettings = LauncherSettings()
    api: ApiSettings = ApiSettings()
    ssh: SshSettings = SshSettings()
    secrets: SecretsSettings = SecretsSettings()
    tasks: TasksSettings = TasksSettings()
    http: HttpSettings = HttpSettings()
    log: LogSettings = LogSettings()
    file: str | None = None  # from which these were read; no key of the file


def find() -> Path | None:
    """The configuration file that exists, the system's before the user's; one that may not be looked at is taken to exist."""
    found = (place.expanduser() / NAME for place in PLACES)
    return next((path for path in found if _may_be_there(path)), None)


def _may_be_there(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError:
        return True


def load(path: Path | str | None = None) -> Settings:
    """The settings of a file (or of the directory that it is in); the defaults where nothing is named nor found.

    Raises Invalid with every fault: ``FILE:LINE: KEY: sentence``.
    """
    path = Path(path) if path is not None else find()
    if path is None:
        return Settings()
    try:
        path = path / NAME if path.is_dir() else path
    except PermissionError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}; let this user enter its directory") from error
    from nodepool_ocb.documents import document as documents  # here, so that a command without a file loads no YAML
    from nodepool_ocb.documents import validation

    document = documents.load(path)
    validation.validate(document, "config.json")
    try:
        settings = msgspec.convert(document.value or {}, Settings)
    except msgspec.ValidationError as error:  # the schema is a little more lenient than the types
        raise Invalid(f"{path}: {error}; correct this key") from error
    try:
        ensemble.parse(settings.zookeeper.hosts)
    except Invalid as odd:
        raise Invalid(document.fault(["zookeeper", "hosts"], str(odd))) from odd
    user, password = settings.zookeeper.username, settings.zookeeper.password
    if (user is None) != (password is None):
        there, missing = ("password", "username") if user is None else ("username", "password")
        raise Invalid(
            document.fault(["zookeeper", there], f"is of no use without zookeeper.{missing}; set both, or none")
        )
    if settings.zookeeper.users is not None and settings.zookeeper.acl is not None:
        raise Invalid(f"{path}: zookeeper.acl: it would give every znode the same rights; leave it out beside users")
    if settings.annealer.webhook is not None and (odd_url := _odd(settings.annealer.webhook.url)):
        raise Invalid(document.fault(["annealer", "webhook", "url"], odd_url))
    return replace(_anchored(settings, path.resolve().parent), file=str(path.resolve()))


def _anchored(settings: Settings, folder: Path) -> Settings:
    """Relative file names made absolute."""

    def absolute(name: str | None) -> str | None:
        return None if name is None else str(folder / Path(name).expanduser())

    tls, ssh, annealer, builder = settings.zookeeper.tls, settings.ssh, settings.annealer, settings.builder
    launcher = settings.launcher
    vault, webhook, api = settings.secrets.vault, annealer.webhook, settings.api
    oidc = api.oidc
    if oidc is not None:
        oidc = replace(oidc, client_secret_file=absolute(oidc.client_secret_file), ca=absolute(oidc.ca))
    if webhook is not None:
        webhook = replace(webhook, secret_file=absolute(webhook.secret_file))
    if vault is not None:
        vault = replace(vault, token_file=str(absolute(vault.token_file)), ca=absolute(vault.ca))
    if tls is not None:
        tls = replace(tls, ca=absolute(tls.ca), cert=absolute(tls.cert), key=absolute(tls.key))
    return replace(
        settings,
        zookeeper=replace(settings.zookeeper, tls=tls),
        ssh=replace(ssh, key_files=tuple(str(absolute(name)) for name in ssh.key_files)),
        annealer=replace(annealer, log_dir=absolute(annealer.log_dir), webhook=webhook),
        secrets=replace(
            settings.secrets,
            key_file=absolute(settings.secrets.key_file),
            directory=absolute(settings.secrets.directory),
            vault=vault,
        ),
        tasks=replace(settings.tasks, sources=tuple(str(absolute(name)) for name in settings.tasks.sources)),
        builder=replace(builder, nodepool=str(absolute(builder.nodepool)), secure=absolute(builder.secure)),
        api=replace(api, ca=absolute(api.ca), cert=absolute(api.cert), key=absolute(api.key), oidc=oidc),
        launcher=replace(launcher, nodepool=str(absolute(launcher.nodepool)), secure=absolute(launcher.secure)),
    )


def _odd(url: str) -> str | None:
    """Why nothing can be posted there; nothing of the URL is told, for it may hold a password."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it raises
    except ValueError:
        return f"this is no URL; write {RECEIVER}"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"must begin with http:// or https:// and name a host; write {RECEIVER}"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "must be ASCII without blanks; write other characters as %XX"
    return None


def receiver(url: str) -> str:
    """The address of a webhook's receiver, without parts that may be secret.

    >>> receiver("https://ann:secret@hooks.example.com:8443/T0/secret?token=secret")
    'https://hooks.example.com:8443'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def user_faults(settings: ZooKeeperSettings) -> list[str]:
    """The faults of our identity, if users are configured."""
    if settings.users is None or settings.username in settings.names().values():
        return []
    who = settings.username or "no user"
    return [f"zookeeper.username: {who} is none of zookeeper.users, so it has no right to anything"]


def loose_keys(settings: SshSettings) -> list[str]:
    """A sentence for each private key that others than its owner may use.

    ssh refuses such a key. We warn: without a key this host could ask no machine, and do nothing on any.
    """
    found = []
    for name in settings.key_files:
        path = Path(name).expanduser()
        if path.suffix != ".pub" and os.path.isfile(path) and path.stat().st_mode & 0o077:  # else it is no such key
            found.append(f"ssh.key_files: key file {name} may be used by others than its owner; chmod 600 {name}")
    return found


def task_sources(settings: Settings) -> Allowed:
    """Which files of this host a task may read: below ``tasks.sources``, and none that is a key or holds a password."""
    secrets, tls, webhook = settings.secrets, settings.zookeeper.tls, settings.annealer.webhook
    names = [
        settings.file,
        *settings.ssh.key_files,
        tls.key if tls else None,
        settings.api.key,
        webhook.secret_file if webhook else None,
        settings.builder.secure,
        settings.launcher.secure,
        secrets.directory,
    ]
    return Allowed(
        setting="tasks.sources", directories=settings.tasks.sources, keys=(*keys(names), *_secret_keys(secrets))
    )


def secret_files(settings: SecretsSettings) -> Allowed:
    """Which files a reference ``file:`` may name: below ``secrets.directory``, without the files that open other secrets."""
    return Allowed(setting="secrets.directory", directories=keys([settings.directory]), keys=_secret_keys(settings))


def _secret_keys(settings: SecretsSettings) -> tuple[str, ...]:
    return keys([settings.key_file, settings.vault.token_file if settings.vault else None])


#: The settings of ports that are not called as their daemon.
SETTINGS_OF_PORTS: Final = {"a server of the API": "api.pages", "the API": "api.listen"}


def shared_port(settings: Settings, *, launcher: bool = False, api: bool = False) -> str | None:
    """A sentence where an annealer and a builder could not run on one host, with a launcher and a server of the API if asked."""
    pages = settings.http.listen
    ports = {"an annealer": pages, "a builder": settings.builder.listen or pages}
    if launcher:
        ports["a launcher"] = settings.launcher.listen or pages
    if api:
        ports |= {"a server of the API": settings.api.pages or pages, "the API": settings.api.listen}
    taken: dict[str, str] = {}
    for daemon, port in ports.items():
        if not port or port.endswith(":0"):
            continue
        if port in taken:
            setting = SETTINGS_OF_PORTS.get(daemon) or f"{daemon.partition(' ')[2]}.listen"
            return f"{taken[port]} and {daemon} of one host would both listen on {port}; set {setting} to another port"
        taken[port] = daemon
    return None
