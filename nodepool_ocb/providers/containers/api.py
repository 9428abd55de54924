"""The way to a container engine, for the driver of images and the driver of machines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json

if TYPE_CHECKING:
    from docker import DockerClient

ANSWER_SECONDS: Final = 60.0
URL: Final[Json] = {
    "type": "string",
    "pattern": "^(unix|tcp|ssh)://",
    "description": "the address of the engine: unix:///run/docker.sock, tcp://HOST:PORT",
}
REPOSITORY: Final[Json] = {
    "type": "string",
    "pattern": "^[a-z0-9][a-z0-9._:/-]*[a-z0-9]$",
    "description": "the prefix of each image's name: registry.example.com/ci",
}


def require(provider: str) -> None:
    """Raises Invalid where the library is not installed."""
    try:
        import docker  # noqa: F401  # here, since most have no need of it
    except ImportError as error:
        raise Invalid(
            f"provider {provider}: driver docker needs the Python package docker; install nodepool-ocb[docker]"
        ) from error


@contextlib.contextmanager
def connected(url: str | None, timeout_seconds: float = ANSWER_SECONDS) -> Iterator[DockerClient]:
    """The engine at this address, or at that of the environment. Raises an exception of ``errors``."""
    import docker

    seconds = max(1, round(timeout_seconds))
    client = docker.from_env(timeout=seconds) if url is None else docker.DockerClient(base_url=url, timeout=seconds)
    with contextlib.closing(client):
        yield client


def errors() -> tuple[type[Exception], ...]:
    """The exceptions of a conversation with an engine."""
    import docker
    import requests

    return (docker.errors.DockerException, requests.RequestException, OSError)


def status(error: Exception) -> int | None:
    """The status of HTTP that an error came with."""
    return getattr(error, "status_code", None)


def words(error: Exception) -> str:
    """The engine's sentence, or that of the library."""
    return str(getattr(error, "explanation", None) or error)
