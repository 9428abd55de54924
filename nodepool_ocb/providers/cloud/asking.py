"""The questions to a cloud: one connection for each, and the refusal that an error of openstacksdk means.

clouds.yaml has the cloud and the user, as for Nodepool. A connection is used by one thread alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from nodepool_ocb.pool.configuration import LaunchProvider
from nodepool_ocb.providers.cloud import sdk
from nodepool_ocb.providers.machines import LaunchParty, MachineRefused

if TYPE_CHECKING:
    from openstack.connection import Connection

T = TypeVar("T")

ANSWER_SECONDS: Final = 30.0  # of one request


class CloudRefusal(Exception):
    """A question ends with this answer."""

    def __init__(self, answer: MachineRefused) -> None:
        super().__init__(answer.reason)
        self.answer = answer


class CloudQuestions:
    """The questions to one provider. Raises Invalid where openstacksdk is not installed."""

    def __init__(self, provider: LaunchProvider) -> None:
        sdk.require(provider.name)
        self._provider = provider

    def ask(self, question: Callable[[Connection], T]) -> T | MachineRefused:
        """The answer, or the refusal of a provider that gave none."""
        import openstack

        try:
            with contextlib.closing(
                openstack.connect(
                    cloud=self._provider.cloud,
                    region_name=self._provider.region,
                    api_timeout=ANSWER_SECONDS,
                    app_name="nodepool-ocb",
                )
            ) as cloud:
                return question(cloud)
        except CloudRefusal as refusal:
            return refusal.answer
        except sdk.errors() as error:
            return self._meaning(error)

    def refused(self, text: str, party: LaunchParty = LaunchParty.PROVIDER) -> MachineRefused:
        """A refusal in words of our own."""
        return MachineRefused(f"provider {self._provider.name}: {text}", party)

    def _meaning(self, error: Exception) -> MachineRefused:
        """The refusal that an error of the library means, with its party."""
        import openstack.exceptions
        from keystoneauth1 import exceptions as keystone

        status = getattr(error, "status_code", None) or getattr(error, "http_status", None)
        text = " ".join(str(error).split())
        own = (openstack.exceptions.ConfigException, keystone.AuthPluginException)
        if "quota" in text.lower() or status == 413:
            party = LaunchParty.QUOTA
        elif isinstance(error, own) or status in (400, 404):
            party = LaunchParty.REQUEST
        else:
            party = LaunchParty.PROVIDER
        return self.refused(text, party)
