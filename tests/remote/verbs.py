"""A command line for each operation that a server of the API performs, in an order in which most of them succeed.

Each is run on two trees that are equal. ``FILES`` has the files that they name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FILES: Final[Mapping[str, str]] = {
    "base.yaml": """\
barclamp: {name: chain, version: 1}
roles:
  - {name: base, jig: noop, flags: [], attribs: [{name: zone, map: base/zone, default: UTC}]}
  - {name: top, jig: noop, requires: [base]}
""",
    "site.yaml": "site: 1\nnodes: {n1.example.com: {rack: r7}, n9.example.com: {virtual: true}}\n",
    "nodes.csv": "fqdn,rack\nn8.example.com,r8\n",
    "strategy.yaml": """\
schema: shipyard/DeploymentStrategy/v1
metadata: {schema: metadata/Document/v1, name: small}
data:
  groups:
    - {name: all, critical: true, selectors: [{node_tags: [web]}], success_criteria: {percent_successful_nodes: 100}}
""",
    "puppet/rel/modules/tasks.yaml": """\
- {id: first, type: shell, role: ['*'], version: 2.1.0, parameters: {cmd: 'true', timeout: 5}}
- {id: second, type: shell, role: ['*'], version: 2.1.0, requires: [first], parameters: {cmd: 'true', timeout: 5}}
""",
    "images.json": "{}",
}

N1, N2 = "n1.example.com", "n2.example.com"

#: Operation → the words of a command that performs it.
LINES: Final[Mapping[str, str]] = {
    "BarclampImport": "barclamp import base.yaml",
    "RoleList": "role list",
    "RoleShow": "role show top",
    "DeploymentCreate": "deployment create lab --reason begin",
    "NodeCreate": f"node create {N1} --tag web --label zone=a --rack r1 --deployment lab",
    "NodeImport": "node import nodes.csv",
    "NodeRename": f"node rename n8.example.com {N2}",
    "ApplySite": "apply -f site.yaml",
    "NodeMove": f"node move {N2} lab",
    "NodeSet": f"node set {N1} rack=r2 labels.zone=b",
    "NodeList": "node list -l tag:web",
    "NodeShow": f"node show {N1}",
    "DeploymentSet": "deployment set lab base base/zone='\"CET\"'",
    "NodeBind": f"node bind {N1} top",
    "NoderoleSet": f"noderole set base@{N1} base/zone='\"EST\"'",
    "NoderoleAttributes": f"noderole attributes base@{N1} --explain",
    "NoderoleAttributesDiff": f"noderole attributes base@{N1} --diff top@{N1}",
    "NoderoleAttributesChanged": f"noderole attributes base@{N1} --changed",
    "NoderoleAttributesRuns": f"noderole attributes base@{N1} --runs a b",
    "NoderoleUnset": f"noderole unset base@{N1} base/zone",
    "NoderoleCommit": f"noderole commit top@{N1} --dry-run",
    "NodeCommit": f"node commit {N1}",
    "NoderoleWait": f"noderole wait base@{N1} --timeout 0",
    "NoderoleWaitLook": f"noderole commit base@{N1} --wait --timeout 0",
    "NoderoleCauses": "noderole causes",
    "NoderoleExplain": f"noderole explain top@{N1}",
    "NoderoleShow": f"noderole show top@{N1}",
    "NoderoleList": "noderole list --deployment lab",
    "NoderoleListStates": "noderole list --by-node --deployment lab",
    "NoderoleListRuns": "noderole list --runs -l deployment:lab",
    "NoderoleRefresh": f"noderole refresh top@{N1}",
    "NoderoleRetry": "noderole retry --failed",
    "NoderoleCancel": f"noderole cancel top@{N1}",
    "NoderoleRedeploy": f"noderole redeploy top@{N1} --yes",
    "NoderolePropose": f"noderole propose top@{N1}",
    "NoderoleCheck": f"noderole check base@{N1}",
    "NoderoleDrift": "noderole drift",
    "NodeHold": f"node hold {N1} --reason disk",
    "NodeRelease": f"node release {N1}",
    "NodeUnavailable": f"node unavailable {N1}",
    "NodeAvailable": f"node available {N1}",
    "NodeAlive": f"node alive {N1}",
    "NodeDead": f"node dead {N1} --reason smoke",
    "GraphDraw": "graph --format dot",
    "ExportSite": "export",
    "DeploymentShow": "deployment show lab",
    "DeploymentList": "deployment list",
    "DeploymentPropose": "deployment propose lab",
    "DeploymentCommit": "deployment commit lab",
    "DeploymentWait": "deployment wait lab --timeout 0",
    "DeploymentChecks": "deployment checks lab --schedule '0 3 * * *'",
    "DeploymentPause": "deployment pause lab --reason switch",
    "DeploymentResume": "deployment resume lab",
    "PauseAll": "pause --reason power",
    "ResumeAll": "resume",
    "RolloutPlanning": "rollout plan strategy.yaml --deployment lab",
    "RolloutSelect": "rollout select --deployment lab",
    "RolloutStart": "rollout start strategy.yaml --deployment lab --dry-run",
    "RolloutList": "rollout list",
    "RolloutShow": "rollout show --deployment lab",
    "RolloutWait": "rollout wait --deployment lab --timeout 0",
    "RolloutPromote": "rollout promote all --batch 1 --deployment lab",
    "RolloutAccept": "rollout accept all lab --reason fine",
    "RolloutCancel": "rollout cancel lab",
    "RolloutResume": "rollout resume lab",
    "RolloutRetry": "rollout retry lab",
    "TasksCheck": "tasks check puppet/rel --release rel",
    "TasksSync": "tasks sync --dir puppet",
    "TasksUpload": "tasks upload --deployment lab --base rel",
    "TasksList": "tasks list",
    "TasksShow": "tasks show second --deployment lab",
    "TasksDownload": "tasks download --deployment lab --dir downloaded",
    "TasksPlan": "tasks plan --deployment lab",
    "TasksGraph": "tasks graph --deployment lab",
    "TasksRun": "tasks run --deployment lab --dry-run",
    "TasksRuns": "tasks runs",
    "TasksHistory": "tasks history lab",
    "TasksWait": "tasks wait lab --timeout 0",
    "TasksStop": "tasks stop lab",
    "ImageBuild": "image build jammy",
    "ImageList": "image list",
    "ImageShow": "image show jammy",
    "ImagePause": "image pause jammy",
    "ImageUnpause": "image unpause jammy",
    "ImageDelete": "image delete jammy --yes",
    "ImageErase": "image erase west --yes",
    "ImageExport": "image export",
    "ImageImport": "image import images.json",
    "UploadList": "upload list",
    "UploadDelete": "upload delete jammy 0000000001 west",
    "UploadDeleteRecords": "upload delete jammy 0000000001 west --forget --yes",
    "UploadLeaks": "upload leaks",
    "UploadLeaksDelete": "upload leaks west --delete x --yes",
    "RequestCreate": "request create --label small",
    "RequestList": "request list",
    "RequestShow": "request show 100-0000000000",
    "RequestDelete": "request delete 100-0000000000 --yes",
    "LeaseList": "lease list",
    "LeaseShow": "lease show 0000000001",
    "LeaseTake": "lease take 100-0000000000",
    "LeaseHold": "lease hold 0000000001",
    "LeaseRelease": "lease release 0000000001",
    "LeaseReturn": "lease return 0000000001",
    "LeaseDelete": "lease delete 0000000001 --yes",
    "LeaseLeaks": "lease leaks",
    "LeaseLeaksDelete": "lease leaks west --delete x --yes",
    "PoolList": "pool list",
    "PoolShow": "pool show west/main",
    "PoolErase": "pool erase west --yes",
    "DaemonPauseSet": "daemon pause annealer@host9 --reason kernel",
    "DaemonResume": "daemon resume annealer@host9",
    "LockList": "lock list",
    "RecordList": "record list",
    "RecordShow": f"record show /ocb/nodes/{N1}",
    "RecordDelete": "record delete /ocb/nodes/n7.example.com --yes",
    "SecretList": "secret list",
    "SecretRotate": "secret rotate",
    "TokenShow": "token show 0123456789ab",
    "TokenRevoke": "token revoke 0123456789ab",
    "HistoryRead": f"history {N1}",
    "DeploymentUnset": "deployment unset lab base base/zone",
    "NoderoleUnbind": f"noderole unbind top@{N1} --yes",
    "DeploymentUnsetRole": "deployment unset lab top --yes",
    "NodeDelete": f"node delete {N2} --yes",
    "RoleDelete": "role delete top --yes",
    "BarclampDelete": "barclamp delete chain --yes",
    "DeploymentDelete": "deployment delete lab --yes",
}

#: Operations that a command line shows in another way on two trees, with the reason.
APART: Final[Mapping[str, str]] = {
    "CompletionNames": "a shell asks for it",
    "DaemonList": "a server of the API registers itself",
    "EventsChoose": "events are followed with a session",
    "ImageBuildLook": "a wait for a build ends with a builder",
    "ImageLog": "logs are followed with a session",
    "NoderoleCheckLook": "a wait for a check ends with an annealer",
    "NoderoleCheckResults": "a check ends with an annealer",
    "NoderoleCommitOutdated": "a wait for a commit ends with an annealer",
    "NoderoleLog": "logs are followed with a session",
    "RolloutWaitLook": "a rollout needs an annealer",
    "StatusOverview": "a server of the API registers itself",
    "StatusWatchLook": "a watch has no end",
    "TasksWaitLook": "a run of tasks needs an annealer",
    "TokenCreate": "the tree of the server has a token",
    "TokenList": "the tree of the server has a token",
}
