"""Driver openstack: images of Glance, by way of openstacksdk; clouds.yaml has the cloud and the user, as for Nodepool.

The stamp is among the image's properties, set as the image is created, before its data. A call with a lost answer may
have made an image nonetheless; the driver searches for it by name and stamp, and deletes it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from nodepool_ocb.documents.schema import faults_in_value
from nodepool_ocb.errors import Invalid, Unavailable
from nodepool_ocb.images.nodepool import Provider
from nodepool_ocb.model.records import Json
from nodepool_ocb.providers.cloud import sdk
from nodepool_ocb.providers.provider import Item, Kept, Refused, Sent, not_ours
from nodepool_ocb.providers.stamp import Stamp
from nodepool_ocb.providers.transfer import GivenUp, Pace, Stream, attended, why_give_up

if TYPE_CHECKING:
    from openstack.connection import Connection

OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {
        "cloud": {"type": "string", "minLength": 1, "description": "the name of a cloud in clouds.yaml"},
        "region-name": {"type": "string", "minLength": 1, "description": "the name of a region"},
        "use-import": {"type": "boolean"},
    },
    "required": ["cloud"],
}
ANSWER_SECONDS: Final = 60.0  # that the cloud may take to answer, but for an upload
LOOK_SECONDS: Final = 1.0  # between two looks at an image that the cloud still works on
ONCE: Final = {"connect_retries": 0, "image_status_code_retries": 0}  # nothing is left of a file that was read
UNDER_WAY: Final = ("queued", "saving", "uploading", "importing")
LASTING: Final = (400, 401, 403, 404, 405, 413)  # a repetition would get the same status


class OpenStack:
    """Each call has a connection of its own: its sockets are no other thread's, and an upload's patience is another."""

    def __init__(self, provider: Provider) -> None:
        sdk.require(provider.name)
        self._name = provider.name
        self._options = provider.options
        self._pace = Pace(float(provider.options.get("rate", 0.0)))

    @staticmethod
    def faults(provider: Provider) -> list[str]:
        return faults_in_value(OPTIONS, provider.options)

    @staticmethod
    def takes(options: Mapping[str, Json]) -> str | None:
        """``image_format`` of clouds.yaml, or of the vendor's profile that it names. Raises Invalid."""
        try:
            from openstack.config.loader import OpenStackConfig
        except ImportError:
            return None
        name, region = options.get("cloud"), options.get("region-name")
        try:
            cloud = OpenStackConfig().get_one(cloud=name, region_name=region, validate=False)
        except sdk.errors() as error:
            raise Invalid(f"cloud {name} of clouds.yaml: {error}; correct it there") from error
        format = cloud.config.get("image_format")
        return str(format) if format else None

    def upload(self, item: Item) -> Sent | Refused:
        return attended(item, lambda: self._send(item), lambda: self._undo(item))

    def verify(self, external_id: str, item: Item) -> Refused | None:
        image = self._asked(lambda cloud: cloud.image.get_image(external_id))
        if isinstance(image, Refused):
            return image
        foreign = not_ours(external_id, self._name, image.properties or {}, item.stamp)
        if foreign is not None:
            return foreign
        what = f"image {external_id} of provider {self._name}"
        if image.status != "active":
            return Refused(f"{what} is {image.status}, and should be active")
        if self._options.get("use-import"):  # the cloud may have made another format of it
            return None
        if image.size != item.size:
            return Refused(f"{what} has {image.size} bytes of {item.size}")
        if image.checksum and image.checksum != item.md5:
            return Refused(f"{what} differs from the sent file: its md5 is {image.checksum}, and should be {item.md5}")
        if image.hash_algo == "sha256" and image.hash_value != item.sha256:
            return Refused(f"{what} differs from the sent file: its sha256 is {image.hash_value}")
        return None

    def delete(self, external_id: str, stamp: Stamp) -> Refused | None:
        def delete(cloud: Connection) -> Refused | None:
            image = _found(cloud, external_id)
            if image is None:
                return None
            foreign = not_ours(external_id, self._name, image.properties or {}, stamp)
            if foreign is None:
                cloud.image.delete_image(external_id, ignore_missing=True)
            return foreign

        refused: Refused | None = self._asked(delete)
        return refused

    def list(self) -> Iterator[Kept]:
        found = self._asked(lambda cloud: [*cloud.image.images(owner=cloud.current_project_id)])
        if isinstance(found, Refused):
            raise Unavailable(found.reason)
        for image in found:
            kept = _kept(image)
            if kept is not None:
                yield kept

    def close(self) -> None: ...

    def _send(self, item: Item) -> Sent | Refused:
        deadline = time.monotonic() + item.timeout_seconds
        try:
            with Stream(item) as stream, self._cloud(item.timeout_seconds + ANSWER_SECONDS, **ONCE) as cloud:
                try:
                    external_id = self._create(cloud, item, stream)
                    sent = self._settled(cloud, external_id, item, deadline)
                except sdk.errors() as error:
                    sent = stream.fault or self._refused(error)
        except GivenUp as given_up:
            sent = given_up.refused
        except sdk.errors() as error:
            return self._refused(error)  # there was no connection, so there is no image
        if isinstance(sent, Refused):
            self._undo(item)
        return sent

    def _create(self, cloud: Connection, item: Item, stream: Stream) -> str:
        image: Any = cloud.image.create_image(
            item.external_name,
            data=cast(Any, stream),  # openstacksdk declares bytes, and takes any readable object
            disk_format=item.format,
            container_format="bare",
            md5=item.md5,
            sha256=item.sha256,
            meta=item.labels,
            allow_duplicates=True,  # it looks for a name that nothing has yet; two would not be harmed by each other
            validate_checksum=False,  # it cannot, of a stream; verify does
            use_import=self._options.get("use-import", False),
            wait=False,
        )
        return str(image.id)

    def _settled(self, cloud: Connection, external_id: str, item: Item, deadline: float) -> Sent | Refused:
        """Wait until the cloud has done with it."""
        while True:
            self._pace.wait()
            image = cloud.image.get_image(external_id)
            if image.status == "active":
                return Sent(external_id)
            if image.status not in UNDER_WAY:
                return Refused(f"provider {self._name}: image {external_id} is {image.status} after its upload")
            refused = why_give_up(item, deadline)
            if refused is not None:
                return refused
            item.stop.wait(LOOK_SECONDS)

    def _undo(self, item: Item) -> None:
        """Delete images with the item's name and stamp. If the cloud does not answer now, ``list`` finds them later."""
        found = self._asked(lambda cloud: [*cloud.image.images(name=item.external_name)])
        if isinstance(found, Refused):
            return
        for image in found:
            kept = _kept(image)
            if kept is not None and kept.stamp == item.stamp:
                self.delete(kept.external_id, item.stamp)

    def _asked(self, question: Callable[[Connection], Any]) -> Any:
        """The cloud's answer to a question, or Refused."""
        try:
            with self._cloud(ANSWER_SECONDS) as cloud:
                return question(cloud)
        except sdk.errors() as error:
            return self._refused(error)

    def _cloud(self, answer_seconds: float, **retries: Any) -> contextlib.closing[Connection]:
        import openstack

        self._pace.wait()
        return contextlib.closing(
            openstack.connect(
                cloud=self._options["cloud"],
                region_name=self._options.get("region-name"),
                api_timeout=answer_seconds,
                app_name="nodepool-ocb",
                **retries,
            )
        )

    def _refused(self, error: Exception) -> Refused:
        """The refusal that an error of the library means."""
        import openstack.exceptions
        from keystoneauth1 import exceptions as keystone

        cause = _cause(error)
        status = getattr(cause, "status_code", None) or getattr(cause, "http_status", None)
        text = " ".join(str(cause).split())
        never = (openstack.exceptions.ConfigException, keystone.AuthPluginException, keystone.CatalogException)
        full = "quota" in text.lower()  # which is 403, 409 or 413, as the service and its age will have it
        return Refused(f"provider {self._name}: {text}", isinstance(cause, never) or (status in LASTING and not full))


def _cause(error: BaseException) -> BaseException:
    """The cause of an error: openstacksdk wraps those of an upload in one without status and kind."""
    while type(error).__name__ == "SDKException" and error.__cause__ is not None:
        error = error.__cause__
    return error


def _found(cloud: Connection, external_id: str) -> Any:
    """An image, or None if there is no image of this id."""
    from openstack.exceptions import NotFoundException

    try:
        return cloud.image.get_image(external_id)
    except NotFoundException:
        return None


def _kept(image: Any) -> Kept | None:
    since = None
    with contextlib.suppress(TypeError, ValueError):
        since = datetime.fromisoformat(image.created_at).timestamp()
    return Kept.stamped(image.id, image.name, image.properties or {}, since)
