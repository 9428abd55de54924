"""openstacksdk: whether it is installed, and its errors. It is imported late: it takes long, and most have no need of it."""

from __future__ import annotations

from nodepool_ocb.errors import Invalid


def require(provider: str) -> None:
    """Import it. Raises Invalid, with the name of the provider, where it is not installed."""
    try:
        import openstack  # noqa: F401
    except ImportError as error:
        raise Invalid(
            f"provider {provider}: driver openstack needs the Python package openstacksdk; install nodepool-ocb[openstack]"
        ) from error


def errors() -> tuple[type[Exception], ...]:
    """The exceptions of openstacksdk, and of the libraries that it lets through."""
    from keystoneauth1.exceptions import ClientException
    from openstack.exceptions import SDKException
    from requests import RequestException

    return (SDKException, ClientException, RequestException, OSError)
