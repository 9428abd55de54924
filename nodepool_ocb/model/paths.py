"""The paths of records in ZooKeeper.

Pure, so that the rooms which decide may name the records that they change. The tree is drawn in docs/zookeeper.md.
A noderole's name is ``role@fqdn``.
"""

from __future__ import annotations

ROOT = "/ocb"
CLUSTER = "/ocb/cluster"
STRUCTURE = "/ocb/structure"
CLOCK = "/ocb/clock"
ROLES = "/ocb/roles"
DEPLOYMENTS = "/ocb/deployments"
NODES = "/ocb/nodes"
DAEMONS = "/ocb/daemons"  # but for the kinds of ``POOL_KINDS``
ROLLOUTS = "/ocb/rollouts"
TASKS = "/ocb/tasks"
TASK_RUNS = "/ocb/tasks/runs"
TASK_RELEASES = "/ocb/tasks/releases"
TASK_DEPLOYMENTS = "/ocb/tasks/deployments"
NETWORKS = "/ocb/networks"
MACS = "/ocb/macs"
BOOTENVS = "/ocb/bootenvs"
PUBLICATIONS = "/ocb/publications"
REGISTRATIONS = "/ocb/registrations"
ADOPTION = "/ocb/adoption"
JOURNAL = "/ocb/journal"
JOURNAL_ENTRIES = "/ocb/journal/entries"
JOURNAL_POOL = "/ocb/journal/pool"  # entries of launchers, with numbers of their own
WEBHOOK = "/ocb/journal/webhook"
WEBHOOK_LOCK = "/ocb/journal/webhook/lock"
TOKENS = "/ocb/tokens"
KEYS = "/ocb/keys"
LOG_KEY = "/ocb/keys/logs"
CALLS = "/ocb/calls"  # those with an idempotency key
PAUSED = "/ocb/paused"  # but for those of builders
PAUSED_BUILDERS = "/nodepool/daemons/paused"
IMAGES = "/nodepool/image"
REQUESTS = "/nodepool/requests"
REQUEST_LOCKS = "/nodepool/requests-lock"
POOL_NODES = "/nodepool/nodes"
COMPONENTS = "/nodepool/components"
POOL_CLOCK = "/nodepool/clock"  # for clients without the right to write below /ocb
DAEMON_KINDS = ("annealer", "api", "builder", "launcher")
PAUSABLE_KINDS = ("annealer", "builder", "launcher")
POOL_KINDS = ("builder", "launcher")  # those that live below /nodepool
COMPONENT_KINDS = ("builder", "launcher", "pool")  # Nodepool's registrations


def entry(number: int) -> str:
    """An entry of the journal.

    >>> entry(7)
    '/ocb/journal/entries/0000000007'
    """
    return f"/ocb/journal/entries/{number:010}"


def pool_entry(number: int) -> str:
    """An entry of a launcher.

    >>> pool_entry(7)
    '/ocb/journal/pool/0000000007'
    """
    return f"/ocb/journal/pool/{number:010}"


def token(id: str) -> str:
    return f"{TOKENS}/{id}"


def call(id: str) -> str:
    return f"{CALLS}/{id}"


def role(name: str) -> str:
    return f"/ocb/roles/{name}"


def deployment(name: str) -> str:
    return f"/ocb/deployments/{name}"


def deployment_roles(name: str) -> str:
    return f"/ocb/deployments/{name}/roles"


def deployment_role(deployment: str, role: str) -> str:
    return f"/ocb/deployments/{deployment}/roles/{role}"


def clusters(deployment: str) -> str:
    return f"/ocb/deployments/{deployment}/clusters"


def gate(deployment: str, role: str) -> str:
    return f"/ocb/deployments/{deployment}/clusters/{role}"


def node(fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}"


def power(fqdn: str) -> str:
    """The power of a machine.

    >>> power("n1.example.com")
    '/ocb/nodes/n1.example.com/power'
    """
    return f"/ocb/nodes/{fqdn}/power"


def inventory(fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/inventory"


def registration(mac: str) -> str:
    return f"{REGISTRATIONS}/{mac}"


def adoption_rule(rule: str) -> str:
    return f"{ADOPTION}/{rule}"


def fence(fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/fence"


def claim(fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/claim"


def installation(fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/installation"


def machine_use(fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/use"


def boot_token(fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/boottoken"


def noderoles(fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/noderoles"


def noderole(role: str, fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/noderoles/{role}"


def user(role: str, fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/noderoles/{role}/user"


def system(role: str, fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/noderoles/{role}/system"


def wall(role: str, fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/noderoles/{role}/wall"


def given(role: str, fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/noderoles/{role}/given"


def runs(role: str, fqdn: str) -> str:
    return f"/ocb/nodes/{fqdn}/noderoles/{role}/runs"


def run(role: str, fqdn: str, run: str) -> str:
    return f"/ocb/nodes/{fqdn}/noderoles/{role}/runs/{run}"


def daemons(kind: str) -> str:
    """The path of the registrations of a kind of daemons.

    >>> daemons("annealer"), daemons("builder")
    ('/ocb/daemons/annealer', '/nodepool/daemons/builder')
    """
    return f"{'/nodepool' if kind in POOL_KINDS else '/ocb'}/daemons/{kind}"


def daemon(kind: str, identity: str) -> str:
    return f"{daemons(kind)}/{identity}"


def daemon_pauses(kind: str) -> str:
    """The path of the pauses of a kind of daemons, by host.

    >>> daemon_pauses("annealer"), daemon_pauses("builder")
    ('/ocb/paused/annealer', '/nodepool/daemons/paused/builder')
    """
    return f"{PAUSED_BUILDERS if kind in POOL_KINDS else PAUSED}/{kind}"


def daemon_pause(kind: str, host: str) -> str:
    return f"{daemon_pauses(kind)}/{host}"


# -- networks --


def network(name: str) -> str:
    return f"{NETWORKS}/{name}"


def network_addresses(name: str) -> str:
    return f"{NETWORKS}/{name}/addresses"


def network_address(name: str, address: str) -> str:
    """The record of an allocated address; it keeps the address from being allocated again.

    >>> network_address("admin", "10.1.0.7")
    '/ocb/networks/admin/addresses/10.1.0.7'
    """
    return f"{NETWORKS}/{name}/addresses/{address}"


def mac(mac: str) -> str:
    return f"{MACS}/{mac}"


# -- booting from the network --


def bootenv(name: str) -> str:
    return f"{BOOTENVS}/{name}"


def publisher(noderole: str) -> str:
    """The record of a noderole that publishes files, ``role@fqdn``."""
    return f"{PUBLICATIONS}/{noderole}"


def publication(noderole: str, fqdn: str) -> str:
    """The record of the files of a node that a noderole has published.

    >>> publication("provisioner-dhcp-database@a1.example.com", "n1.example.com")
    '/ocb/publications/provisioner-dhcp-database@a1.example.com/n1.example.com'
    """
    return f"{PUBLICATIONS}/{noderole}/{fqdn}"


# -- rollouts (seed 003) --


def rollouts(deployment: str) -> str:
    return f"/ocb/rollouts/{deployment}"


def rollout(deployment: str, identity: str, part: str = "") -> str:
    """A rollout, or the part of it that ``rollout.records.parts`` calls so.

    >>> rollout("lab", "0000000001", "groups/control-nodes")
    '/ocb/rollouts/lab/0000000001/groups/control-nodes'
    """
    return f"/ocb/rollouts/{deployment}/{identity}" + (f"/{part}" if part else "")


def rollout_lock(deployment: str, identity: str) -> str:
    return f"/ocb/rollouts/{deployment}/{identity}/lock"


# -- task lists (seed 002) --


def release_tasks(release: str, part: str = "") -> str:
    """The task list of a release, or a part of it.

    >>> release_tasks("9.0", "list-0000000001/0000")
    '/ocb/tasks/releases/9.0/list-0000000001/0000'
    """
    return f"/ocb/tasks/releases/{release}" + (f"/{part}" if part else "")


def deployment_tasks(deployment: str, part: str = "") -> str:
    """The task list of a deployment, or its settings, or a part of the list."""
    return f"/ocb/tasks/deployments/{deployment}" + (f"/{part}" if part else "")


def task_runs(deployment: str) -> str:
    return f"/ocb/tasks/runs/{deployment}"


def task_run(deployment: str, identity: str, part: str = "") -> str:
    """A run of tasks, or a table of it, or a part of a table.

    >>> task_run("lab", "0000000001", "plan/0000")
    '/ocb/tasks/runs/lab/0000000001/plan/0000'
    """
    return f"/ocb/tasks/runs/{deployment}/{identity}" + (f"/{part}" if part else "")


def task_run_lock(deployment: str, identity: str) -> str:
    return f"/ocb/tasks/runs/{deployment}/{identity}/lock"


def task_facts(deployment: str, identity: str, fqdn: str = "common") -> str:
    """The facts that a run gives to each node ("common": to all of them)."""
    return f"/ocb/tasks/runs/{deployment}/{identity}/facts/{fqdn}"


# -- images (seed 004) --


def image(image: str) -> str:
    return f"/nodepool/image/{image}"


def request_build(image: str) -> str:
    return f"/nodepool/image/{image}/request-build"


def pause(image: str) -> str:
    return f"/nodepool/image/{image}/pause"


def builds(image: str) -> str:
    return f"/nodepool/image/{image}/builds"


def build_lock(image: str) -> str:
    return f"/nodepool/image/{image}/builds/lock"


def build(image: str, build: str) -> str:
    return f"/nodepool/image/{image}/builds/{build}"


def build_providers(image: str, build: str) -> str:
    return f"/nodepool/image/{image}/builds/{build}/provider"


def uploads(image: str, build: str, provider: str) -> str:
    return f"/nodepool/image/{image}/builds/{build}/provider/{provider}/images"


def upload_lock(image: str, build: str, provider: str) -> str:
    return f"/nodepool/image/{image}/builds/{build}/provider/{provider}/images/lock"


def upload(image: str, build: str, provider: str, upload: str) -> str:
    return f"/nodepool/image/{image}/builds/{build}/provider/{provider}/images/{upload}"


def noderole_name(role: str, fqdn: str) -> str:
    """How a noderole is written everywhere.

    >>> noderole_name("ntp-client", "n1.example.com")
    'ntp-client@n1.example.com'
    """
    return f"{role}@{fqdn}"


def cluster_name(role: str, deployment: str) -> str:
    """How every member of a cluster is written where parents are named.

    >>> cluster_name("ceph-osd", "lab")
    'ceph-osd@*lab'
    """
    return f"{role}@*{deployment}"


def split_cluster(name: str) -> tuple[str, str] | None:
    """The role and the deployment of ``role@*deployment``; None for a single noderole.

    >>> split_cluster("ceph-osd@*lab"), split_cluster("ceph-osd@n1.example.com")
    (('ceph-osd', 'lab'), None)
    """
    role, at, deployment = name.partition("@*")
    return (role, deployment) if at else None


def split_noderole(name: str) -> tuple[str, str]:
    """The role and the node of ``role@fqdn``; ValueError where there is no ``@``.

    >>> split_noderole("ntp-client@n1.example.com")
    ('ntp-client', 'n1.example.com')
    """
    role, at, fqdn = name.partition("@")
    if not (role and at and fqdn):
        raise ValueError(f"{name[:100]!r} is not a noderole; write ROLE@FQDN, as in ntp-client@n1.example.com")
    return role, fqdn


# -- requests and nodes of pools (Nodepool 11) --


def request(id: str) -> str:
    """A request for nodes: its id is PRIORITY-SEQUENCE.

    >>> request("100-0000000007")
    '/nodepool/requests/100-0000000007'
    """
    return f"{REQUESTS}/{id}"


def request_lock(id: str) -> str:
    return f"{REQUEST_LOCKS}/{id}"


def pool_node(id: str) -> str:
    return f"{POOL_NODES}/{id}"


def pool_node_lock(id: str) -> str:
    return f"{POOL_NODES}/{id}/lock"


def components(kind: str) -> str:
    """The registrations of Nodepool's kind: builder, launcher, pool."""
    return f"{COMPONENTS}/{kind}"
