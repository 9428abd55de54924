"""The REST form of the operations, as one table: every operation that a server performs has one row.

A part of a path in braces fills the field of its name, or of its plural with one value. ``fills`` has the exceptions. The rest of
the fields is the query of a GET, and the JSON body of the other methods. ``one``: the same for one object, which the path names.
``records``: the records of the object or list, by which versions are told (``versions.BRANCHES``). A list with a ``key`` has
pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.operations.operation import Operation

WORLD: Final = "world"  # all records of nodes, noderoles, roles and deployments
#: The stream of events, the logs and the picture of a graph, which are no operations.
EVENTS_PATH: Final = "/v1/events"
PICTURE_PATH: Final = "/v1/graph/picture"
RUN_LOG_PATH: Final = "/v1/noderoles/{noderole}/runs/{run}/log"
BUILD_LOG_PATH: Final = "/v1/images/{image}/builds/{build}/log"


class Route(msgspec.Struct, frozen=True):
    """A row."""

    operation: str  # its name in the table of operations
    method: str
    path: str
    records: str | None = None
    own: str | None = (
        None  # beside ``records`` of the world: the object, so that its document has the version for a write
    )
    one: str | None = None
    creates: bool = False
    fills: Mapping[str, str] = {}
    key: tuple[str, ...] = ()  # of a list: the fields that name a row


_NAME: Final = {"deployment": "name"}
_NAMES: Final = {"deployment": "names"}

ROUTES: Final = (
    # the cluster
    Route("status", "GET", "/v1/status"),
    Route("status/watch-look", "GET", "/v1/status/watch-look"),
    Route("history", "GET", "/v1/history"),
    Route("completion", "POST", "/v1/completion"),
    Route("events", "GET", "/v1/events/choice"),
    Route("pause", "POST", "/v1/pause"),
    Route("resume", "POST", "/v1/resume"),
    Route("apply", "POST", "/v1/apply"),
    Route("export", "GET", "/v1/export"),
    Route("graph", "GET", "/v1/graph"),
    Route("lock/list", "GET", "/v1/locks"),
    Route("daemon/list", "GET", "/v1/daemons", key=("kind", "id")),
    Route("daemon/pause", "POST", "/v1/daemons/pause", one="/v1/daemons/{daemon}/pause"),
    Route("daemon/resume", "POST", "/v1/daemons/resume", one="/v1/daemons/{daemon}/resume"),
    Route("record/list", "GET", "/v1/records"),
    Route("record/show", "GET", "/v1/records/show"),
    Route("record/delete", "POST", "/v1/records/delete"),
    Route("secret/list", "GET", "/v1/secrets", key=("name", "attribute")),
    Route("secret/rotate", "POST", "/v1/secrets/rotate"),
    Route("token/list", "GET", "/v1/tokens", key=("id",)),
    Route("token/show", "GET", "/v1/tokens/{token}", "token"),
    Route("token/create", "POST", "/v1/tokens"),
    Route("token/revoke", "POST", "/v1/tokens/revoke", "token", one="/v1/tokens/{token}/revoke"),
    # roles
    Route("barclamp/import", "POST", "/v1/barclamps"),
    Route("barclamp/delete", "DELETE", "/v1/barclamps/{barclamp}"),
    Route("role/list", "GET", "/v1/roles", WORLD, key=("name",)),
    Route("role/show", "GET", "/v1/roles/{role}", "role"),
    Route("role/delete", "DELETE", "/v1/roles/{role}", "role"),
    # deployments
    Route("deployment/list", "GET", "/v1/deployments", WORLD, key=("name",)),
    Route("deployment/show", "GET", "/v1/deployments/{deployment}", WORLD, "deployment", fills=_NAME),
    Route("deployment/create", "PUT", "/v1/deployments/{deployment}", "deployment", creates=True, fills=_NAME),
    Route("deployment/delete", "DELETE", "/v1/deployments/{deployment}", "deployment", fills=_NAME),
    Route("deployment/propose", "POST", "/v1/deployments/{deployment}/propose", "deployment", fills=_NAME),
    Route("deployment/commit", "POST", "/v1/deployments/{deployment}/commit", "deployment", fills=_NAME),
    Route("deployment/checks", "PUT", "/v1/deployments/{deployment}/checks", "deployment", fills=_NAME),
    Route("deployment/pause", "POST", "/v1/deployments/{deployment}/pause", "deployment", fills=_NAMES),
    Route("deployment/resume", "POST", "/v1/deployments/{deployment}/resume", "deployment", fills=_NAMES),
    Route("deployment/set", "PATCH", "/v1/deployments/{deployment}/roles/{role}", "deployment", fills=_NAME),
    Route("deployment/unset", "POST", "/v1/deployments/{deployment}/roles/{role}/unset", "deployment", fills=_NAME),
    Route("deployment/unset-role", "DELETE", "/v1/deployments/{deployment}/roles/{role}", "deployment", fills=_NAME),
    Route("deployment/wait", "GET", "/v1/deployments/{deployment}/awaited", WORLD, fills=_NAME),
    # nodes
    Route("node/list", "GET", "/v1/nodes", WORLD, key=("name",)),
    Route("node/show", "GET", "/v1/nodes/{node}", "node"),
    Route("node/create", "POST", "/v1/nodes"),
    Route("node/import", "POST", "/v1/nodes/import"),
    Route("node/set", "PATCH", "/v1/nodes", "node", one="/v1/nodes/{node}"),
    Route("node/delete", "POST", "/v1/nodes/delete", "node", one="/v1/nodes/{node}/delete"),
    Route("node/alive", "POST", "/v1/nodes/alive", "node", one="/v1/nodes/{node}/alive"),
    Route("node/dead", "POST", "/v1/nodes/dead", "node", one="/v1/nodes/{node}/dead"),
    Route("node/available", "POST", "/v1/nodes/available", "node", one="/v1/nodes/{node}/available"),
    Route("node/unavailable", "POST", "/v1/nodes/unavailable", "node", one="/v1/nodes/{node}/unavailable"),
    Route("node/bind", "POST", "/v1/nodes/bind", "node", one="/v1/nodes/{node}/bind"),
    Route("node/commit", "POST", "/v1/nodes/commit", "node", one="/v1/nodes/{node}/commit"),
    Route("node/hold", "POST", "/v1/nodes/hold", "node", one="/v1/nodes/{node}/hold"),
    Route("node/release", "POST", "/v1/nodes/release", "node", one="/v1/nodes/{node}/release"),
    Route("node/move", "POST", "/v1/nodes/move", "node", one="/v1/nodes/{node}/move"),
    Route("node/rename", "POST", "/v1/nodes/{node}/rename", "node"),
    Route("node/reinstall", "POST", "/v1/nodes/reinstall", "node", one="/v1/nodes/{node}/reinstall"),
    Route("node/decommission", "POST", "/v1/nodes/decommission", "node", one="/v1/nodes/{node}/decommission"),
    Route("node/recommission", "POST", "/v1/nodes/recommission", "node", one="/v1/nodes/{node}/recommission"),
    Route("node/rescue", "POST", "/v1/nodes/rescue", "node", one="/v1/nodes/{node}/rescue"),
    Route("installation/show", "GET", "/v1/nodes/{node}/installation"),
    Route("installation/identity", "POST", "/v1/nodes/{node}/installation/identity"),
    Route("installation/report", "POST", "/v1/nodes/{node}/installation/report"),
    Route("node/adopt", "POST", "/v1/registrations/{mac}/adopt"),
    Route("node/hint", "POST", "/v1/node-hints"),
    Route("node/machine", "GET", "/v1/nodes/{node}/facts"),
    Route("node/inventory", "POST", "/v1/nodes/{node}/inventory"),
    Route("node/going-down", "POST", "/v1/nodes/{node}/going-down"),
    # machines that wait
    Route("registration/list", "GET", "/v1/registrations", key=("mac",)),
    Route("registration/show", "GET", "/v1/registrations/{mac}"),
    Route("registration/create", "POST", "/v1/registrations"),
    Route("registration/poll", "POST", "/v1/registrations/{mac}/poll"),
    Route("registration/refuse", "POST", "/v1/registrations/{mac}/refuse"),
    Route("registration/delete", "DELETE", "/v1/registrations/{mac}"),
    Route("adoption/list", "GET", "/v1/adoption-rules", key=("name",)),
    Route("adoption/show", "GET", "/v1/adoption-rules/{rule}"),
    Route("adoption/set", "PATCH", "/v1/adoption-rules/{rule}"),
    Route("adoption/delete", "DELETE", "/v1/adoption-rules/{rule}"),
    Route("adoption/check", "GET", "/v1/adoption-check"),
    # networks
    Route("network/list", "GET", "/v1/networks", key=("name",)),
    Route("network/show", "GET", "/v1/networks/{network}", "network"),
    Route("network/create", "PUT", "/v1/networks/{network}", "network", creates=True, fills={"network": "name"}),
    Route("network/set", "PATCH", "/v1/networks/{network}", "network"),
    Route("network/delete", "DELETE", "/v1/networks/{network}", "network"),
    Route("network/addresses", "GET", "/v1/networks/{network}/addresses"),
    Route("network/allocate", "POST", "/v1/networks/{network}/allocate", "network"),
    Route("network/release", "POST", "/v1/networks/{network}/release", "network"),
    Route("network/serve", "POST", "/v1/networks/{network}/serve", "network"),
    Route("network/unserve", "POST", "/v1/networks/{network}/unserve", "network"),
    # boot environments
    Route("bootenv/list", "GET", "/v1/bootenvs", WORLD, key=("name",)),
    Route("bootenv/show", "GET", "/v1/bootenvs/{bootenv}", "bootenv"),
    Route("bootenv/create", "PUT", "/v1/bootenvs/{bootenv}", "bootenv", creates=True, fills={"bootenv": "name"}),
    Route("bootenv/set", "PATCH", "/v1/bootenvs/{bootenv}", "bootenv"),
    Route("bootenv/delete", "DELETE", "/v1/bootenvs/{bootenv}", "bootenv"),
    Route("power/list", "GET", "/v1/power", key=("node",)),
    Route("power/show", "GET", "/v1/nodes/{node}/power", "node"),
    Route("power/set", "PATCH", "/v1/power", "node", one="/v1/nodes/{node}/power"),
    Route("power/unset", "POST", "/v1/power/unset", "node", one="/v1/nodes/{node}/power/unset"),
    Route("power/on", "POST", "/v1/power/on", "node", one="/v1/nodes/{node}/power/on"),
    Route("power/off", "POST", "/v1/power/off", "node", one="/v1/nodes/{node}/power/off"),
    Route("power/cycle", "POST", "/v1/power/cycle", "node", one="/v1/nodes/{node}/power/cycle"),
    Route("power/check", "POST", "/v1/power/check", "node", one="/v1/nodes/{node}/power/check"),
    Route("power/rotate", "POST", "/v1/power/rotate", "node", one="/v1/nodes/{node}/power/rotate"),
    Route("power/discover", "GET", "/v1/power/discovered"),
    # noderoles
    Route("noderole/list", "GET", "/v1/noderoles", WORLD, key=("noderole",)),
    Route("noderole/show", "GET", "/v1/noderoles/{noderole}"),
    Route("noderole/explain", "GET", "/v1/noderoles/explain", one="/v1/noderoles/{noderole}/explain"),
    Route("noderole/attributes", "GET", "/v1/noderoles/{noderole}/attributes"),
    Route("noderole/attributes-changed", "GET", "/v1/noderoles/{noderole}/attributes/changed"),
    Route("noderole/attributes-diff", "GET", "/v1/noderoles/{noderole}/attributes/diff"),
    Route("noderole/attributes-runs", "GET", "/v1/noderoles/{noderole}/attributes/runs"),
    Route("noderole/log", "GET", "/v1/noderoles/{noderole}/log"),
    Route("noderole/list-states", "GET", "/v1/noderole-states", WORLD),
    Route("noderole/list-runs", "GET", "/v1/noderole-runs"),
    Route("noderole/drift", "GET", "/v1/drift"),
    Route("noderole/causes", "GET", "/v1/causes"),
    Route("noderole/check-look", "POST", "/v1/noderoles/check-look"),
    Route("noderole/check-results", "POST", "/v1/noderoles/check-results"),
    Route("noderole/commit-outdated", "POST", "/v1/noderoles/commit-outdated"),
    Route("noderole/wait-look", "POST", "/v1/noderoles/wait-look"),
    Route("noderole/wait", "GET", "/v1/noderoles/awaited", WORLD, one="/v1/noderoles/{noderole}/awaited"),
    Route("noderole/set", "PATCH", "/v1/noderoles", "noderole", one="/v1/noderoles/{noderole}"),
    Route("noderole/unset", "POST", "/v1/noderoles/unset", "noderole", one="/v1/noderoles/{noderole}/unset"),
    Route("noderole/unbind", "POST", "/v1/noderoles/unbind", "noderole", one="/v1/noderoles/{noderole}/unbind"),
    Route("noderole/cancel", "POST", "/v1/noderoles/cancel", "noderole", one="/v1/noderoles/{noderole}/cancel"),
    Route("noderole/check", "POST", "/v1/noderoles/check", "noderole", one="/v1/noderoles/{noderole}/check"),
    Route("noderole/commit", "POST", "/v1/noderoles/commit", "noderole", one="/v1/noderoles/{noderole}/commit"),
    Route("noderole/propose", "POST", "/v1/noderoles/propose", "noderole", one="/v1/noderoles/{noderole}/propose"),
    Route("noderole/redeploy", "POST", "/v1/noderoles/redeploy", "noderole", one="/v1/noderoles/{noderole}/redeploy"),
    Route("noderole/refresh", "POST", "/v1/noderoles/refresh", "noderole", one="/v1/noderoles/{noderole}/refresh"),
    Route("noderole/retry", "POST", "/v1/noderoles/retry", "noderole", one="/v1/noderoles/{noderole}/retry"),
    # rollouts
    Route("rollout/list", "GET", "/v1/rollouts", key=("rollout",)),
    Route("rollout/show", "GET", "/v1/rollouts/show"),
    Route("rollout/wait", "GET", "/v1/rollouts/awaited"),
    Route("rollout/wait-look", "POST", "/v1/rollouts/wait-look"),
    Route("rollout/plan", "POST", "/v1/rollouts/plan"),
    Route("rollout/select", "POST", "/v1/rollouts/select"),
    Route("rollout/start", "POST", "/v1/rollouts"),
    Route("rollout/accept", "POST", "/v1/rollouts/accept"),
    Route("rollout/cancel", "POST", "/v1/rollouts/cancel"),
    Route("rollout/promote", "POST", "/v1/rollouts/promote"),
    Route("rollout/resume", "POST", "/v1/rollouts/resume"),
    Route("rollout/retry", "POST", "/v1/rollouts/retry"),
    # task lists
    Route("tasks/list", "GET", "/v1/tasks", key=("kind", "name")),
    Route("tasks/show", "GET", "/v1/tasks/show"),
    Route("tasks/download", "GET", "/v1/tasks/download"),
    Route("tasks/check", "POST", "/v1/tasks/check"),
    Route("tasks/graph", "POST", "/v1/tasks/graph"),
    Route("tasks/plan", "POST", "/v1/tasks/plan"),
    Route("tasks/upload", "PUT", "/v1/tasks"),
    Route("tasks/sync", "POST", "/v1/tasks/sync"),
    Route("tasks/run", "POST", "/v1/task-runs"),
    Route("tasks/runs", "GET", "/v1/task-runs", key=("run",)),
    Route("tasks/history", "GET", "/v1/task-runs/history"),
    Route("tasks/wait", "GET", "/v1/task-runs/awaited"),
    Route("tasks/wait-look", "POST", "/v1/task-runs/wait-look"),
    Route("tasks/stop", "POST", "/v1/task-runs/stop"),
    # images
    Route("image/list", "GET", "/v1/images", key=("name",)),
    Route("image/show", "GET", "/v1/images/{image}", "image"),
    Route("image/log", "GET", "/v1/images/{image}/log"),
    Route("image/build-look", "GET", "/v1/images/{image}/build-look"),
    Route("image/build", "POST", "/v1/images/{image}/build", "image"),
    Route("image/pause", "PUT", "/v1/images/{image}/pause", "image"),
    Route("image/unpause", "DELETE", "/v1/images/{image}/pause", "image"),
    Route("image/delete", "POST", "/v1/images/{image}/delete", "image"),
    Route("image/erase", "POST", "/v1/providers/{provider}/erase-uploads"),
    Route("image/export", "GET", "/v1/image-export"),
    Route("image/import", "POST", "/v1/image-import"),
    Route("upload/list", "GET", "/v1/uploads", key=("name",)),
    Route("upload/delete", "POST", "/v1/images/{image}/builds/{build}/providers/{provider}/delete", "image"),
    Route(
        "upload/delete-records",
        "POST",
        "/v1/images/{image}/builds/{build}/providers/{provider}/delete-records",
        "image",
    ),
    Route("upload/leaks", "GET", "/v1/upload-leaks"),
    Route("upload/leaks-delete", "POST", "/v1/upload-leaks/delete"),
    # pools
    Route("request/list", "GET", "/v1/requests", key=("name",)),
    Route("request/show", "GET", "/v1/requests/{request}"),
    Route("request/create", "POST", "/v1/requests"),
    Route("request/delete", "POST", "/v1/requests/delete", "request", one="/v1/requests/{request}/delete"),
    Route("lease/take", "POST", "/v1/requests/{request}/take", "request"),
    Route("lease/list", "GET", "/v1/pool-nodes", key=("name",)),
    Route("lease/show", "GET", "/v1/pool-nodes/{lease}"),
    Route("lease/hold", "POST", "/v1/pool-nodes/hold", "lease", one="/v1/pool-nodes/{lease}/hold"),
    Route("lease/release", "POST", "/v1/pool-nodes/release", "lease", one="/v1/pool-nodes/{lease}/release"),
    Route("lease/return", "POST", "/v1/pool-nodes/return", "lease", one="/v1/pool-nodes/{lease}/return"),
    Route("lease/delete", "POST", "/v1/pool-nodes/delete", "lease", one="/v1/pool-nodes/{lease}/delete"),
    Route("lease/leaks", "GET", "/v1/machine-leaks"),
    Route("lease/leaks-delete", "POST", "/v1/machine-leaks/delete"),
    Route("pool/list", "GET", "/v1/pools", key=("name",)),
    Route("pool/show", "GET", "/v1/pools/show"),
    Route("pool/erase", "POST", "/v1/providers/{provider}/erase-nodes"),
)


def parameters(path: str) -> tuple[str, ...]:
    """The names in braces.

    >>> parameters("/v1/deployments/{deployment}/roles/{role}")
    ('deployment', 'role')
    """
    return tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))


def placed(path: str) -> str:
    """The path as Litestar has it: it reserves some names of parameters, so ours have a prefix.

    >>> placed("/v1/nodes/{node}")
    '/v1/nodes/{of_node:str}'
    """
    return path.replace("{", "{of_").replace("}", ":str}")


def filled(route: Route, operation: type[Operation[Any]], values: Mapping[str, str]) -> dict[str, Any]:
    """The fields that the parts of a path fill."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        field = route.fills.get(name) or (name if name in operation.__struct_fields__ else f"{name}s")
        found[field] = (value,) if field != name and field != "name" else value
    return found
