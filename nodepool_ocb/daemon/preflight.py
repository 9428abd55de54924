"""The parts that a daemon with this configuration would lack on this host: key files, folders, certificates, users, modes.

Everything is only read, by the calling user; a daemon's own user may have fewer rights. No sentence has a secret.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nodepool_ocb.documents import files as reader
from nodepool_ocb.model.rights import ClientKind

if TYPE_CHECKING:
    from nodepool_ocb.config import Settings, SshSettings, TlsSettings, ZooKeeperSettings

CERTIFICATE_BYTES: Final = 1 << 20
SOON_SECONDS: Final = 30 * 86400.0  # a certificate that ends within this time is warned of


def wrong(settings: Settings, kind: ClientKind | None = None) -> list[str]:
    """The faults that would keep a daemon from its work: any, or one of this kind. Only an annealer must log in to machines."""
    of_annealers = (_keys(settings), webhook_faults(settings), _secret_faults(settings))
    found = [each for faults in of_annealers if kind in (None, ClientKind.ANNEALER) for each in faults]
    return [*found, *_zookeeper(settings.zookeeper)]


def doubtful(settings: Settings, file: Path | None, kind: ClientKind | None = None) -> list[str]:
    """Findings that a daemon tolerates, or that may be intended: any, or one of this kind; ``file``: the configuration."""
    from nodepool_ocb import config

    of_annealers = (config.loose_keys(settings.ssh), _no_default_key(settings), _folders(settings))
    return [
        *(each for found in of_annealers if kind in (None, ClientKind.ANNEALER) for each in found),
        *_shown_passwords(settings, file),
        *_ending_certificates(settings.zookeeper.tls),
    ]


# -- keys of ssh --


def _keys(settings: Settings) -> Iterator[str]:
    """The keys that the configuration names; a host without annealer needs none."""
    names = settings.ssh.key_files
    there = [Path(name) for name in names if may_be_there(name)]
    closed = [path for path in there if not os.access(path, os.R_OK, effective_ids=True)]
    for path in closed:
        yield f"ssh.key_files: {path} {_owned(path)} cannot be read; chown it to the annealer's user"
    if there and not closed:
        yield from _no_keys(settings.ssh)
    if not _is_default(settings) and not there:
        yield f"ssh.key_files: none of these exists: {', '.join(names)}; make one: ssh-keygen -t ed25519 -f FILE"


def _no_keys(settings: SshSettings) -> Iterator[str]:
    """Files that an annealer could not read as keys."""
    from nodepool_ocb.jigs.ssh.keys import NoKey, load_keys

    try:
        load_keys(settings)
    except NoKey as lacking:
        yield str(lacking)


def _no_default_key(settings: Settings) -> Iterator[str]:
    if _is_default(settings) and not any(map(may_be_there, settings.ssh.key_files)):
        make = f"ssh-keygen -t ed25519 -f {settings.ssh.key_files[0]}"
        yield f"there is no key to log in to machines with; an annealer needs one: {make}"


def _is_default(settings: Settings) -> bool:
    from nodepool_ocb.config import SshSettings

    return settings.ssh.key_files == SshSettings().key_files


def may_be_there(name: str) -> bool:
    """True if the file exists, or if its folder cannot be entered, so that its existence is unknown."""
    try:
        return Path(name).exists()
    except PermissionError:
        return True


def _owned(path: Path) -> str:
    try:
        return f"belongs to {path.owner()} and"
    except KeyError:
        return f"belongs to user {path.stat().st_uid} and"
    except PermissionError:
        return "is in a folder that may not be entered, and"


# -- the webhook --


def webhook_faults(settings: Settings) -> list[str]:
    """Why nothing could be signed."""
    from nodepool_ocb.secrecy import private
    from nodepool_ocb.secrecy.errors import Sealed

    try:
        if settings.annealer.webhook is not None:
            private.webhook_key(settings.annealer.webhook)
    except Sealed as sealed:
        return [str(sealed)]
    return []


def _secret_faults(settings: Settings) -> list[str]:
    """Why no secret that is encrypted could be opened."""
    from nodepool_ocb.secrecy import keyring
    from nodepool_ocb.secrecy.errors import Sealed

    try:
        keyring.load(settings.secrets.key_file)
    except Sealed as sealed:
        return [f"secrets.key_file: {sealed}"]
    return []


# -- folders --


def _folders(settings: Settings) -> Iterator[str]:
    folder = settings.annealer.log_dir
    if folder is not None and (reason := unusable(Path(folder))):
        yield f"annealer.log_dir: {reason}; runs go on without logs"
    elif folder is not None and os.path.isdir(folder) and os.stat(folder).st_mode & 0o022:
        yield f"annealer.log_dir: {folder} may be written by others than its owner; chmod go-w {folder}"


def unusable(folder: Path) -> str | None:
    """Why nothing could be written into a folder, which is made where it is absent; None where it could."""
    try:
        return _unusable(folder)
    except OSError as error:  # such as a link into a folder that may not be entered
        return f"{folder} cannot be looked at by user {os.geteuid()}: {error.strerror}"


def _unusable(folder: Path) -> str | None:
    there = next((each for each in (folder, *folder.parents) if os.path.lexists(each)), Path("/"))
    if not there.is_dir():
        return f"{there} is no directory"
    beyond = "" if there == folder else f", so {folder} cannot be made"
    if (reason := unwritable(there)) is not None:
        return f"{reason}{beyond}"
    system = os.statvfs(there)
    full = (system.f_blocks and not system.f_bavail) or (system.f_files and not system.f_favail)
    return f"the file system of {there} is full{beyond}" if full else None


def unwritable(folder: Path) -> str | None:
    """Why a folder that is there takes no files, however much room it has; None where it does."""
    system = os.statvfs(folder)
    if system.f_flag & os.ST_RDONLY:
        return f"the file system of {folder} is read-only"
    if not system.f_blocks and not system.f_files:
        return f"the file system of {folder} has no room for files"  # such as /proc
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        return f"{folder} cannot be written to by user {os.geteuid()}"
    return None


# -- ZooKeeper --


def _zookeeper(settings: ZooKeeperSettings) -> Iterator[str]:
    from nodepool_ocb.errors import Invalid
    from nodepool_ocb.store.client import access, tls

    try:
        access.refuse_plain_text(settings)
    except Invalid as refused:
        yield from refused.problems
    files = settings.tls
    if files is None:
        return
    try:
        tls.context(files.ca, files.cert, files.key, files.verify)
    except Invalid as refused:
        yield from refused.problems
        return
    for name, file, until in _certificates(files):
        if until <= time.time():
            yield f"zookeeper.tls.{name}: {file}: it was good until {_day(until)}; have a new one made"


def _ending_certificates(files: TlsSettings | None) -> Iterator[str]:
    for name, file, until in _certificates(files) if files else ():
        if 0 < until - time.time() < SOON_SECONDS:
            yield f"zookeeper.tls.{name}: {file}: it is good until {_day(until)}"


def _certificates(files: TlsSettings) -> Iterator[tuple[str, str, float]]:
    """The key of the configuration, the file, and the end of its first certificate; of the readable files."""
    from cryptography import x509

    for name, file in (("ca", files.ca), ("cert", files.cert)):
        if file is not None:
            try:
                found = x509.load_pem_x509_certificates(reader.read(file, CERTIFICATE_BYTES))
            except (OSError, ValueError):
                continue
            for each in found:
                yield name, file, each.not_valid_after_utc.timestamp()


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


# -- passwords --


def _shown_passwords(settings: Settings, file: Path | None) -> Iterator[str]:
    """Files with passwords that everybody may read."""
    webhook = settings.annealer.webhook
    password = settings.zookeeper.password or (webhook is not None and "@" in webhook.url)
    files = [file] if file is not None and password else []
    files += [Path(each) for each in dict.fromkeys((settings.builder.secure, settings.launcher.secure)) if each]
    for each in files:
        try:
            each = each / "nodepool-ocb.yaml" if each.is_dir() else each
            mode = each.stat().st_mode
        except OSError:
            continue
        if mode & stat.S_IROTH:
            yield f"{each} holds a password, and everybody may read it; chmod 640 {each}"
