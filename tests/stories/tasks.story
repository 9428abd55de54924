# In which order task lists run. "list FILE..." names the lists, which are in tasks/; "ROLE: NODE..." gives nodes a role, and the
# order of these lines is the listing order. "NODE fails": each task does on it. "run" carries the list out, and takes --start, --end, --skip and --tasks
# as the command does. Behind that stands what was: "A B then C": A and B had ended when C began; "A beside B": neither waited for the
# other. Names are those of nodes (all that they did), of tasks (on all nodes), of stages, or TASK@NODE.
# "NAMES: OUTCOME" says what became of them; what no line names so was successful. "run: STATE, REASON".
# "NODE: one at a time": no two of its tasks ran at once; that is so in every story, said or not.

Groups run in the order of the seed
    list groups.yaml
    primary-controller: n1
    controller: n4 n2 n3 n5
    cinder: n6
    network: n7
    compute: n8
    run
    n1 then n4 n2 then n3 n5 then n7 n6
    n4 beside n2
    n3 beside n5
    n7 beside n6
    n7 then n8
    setup_network@n8 then setup_services@n8
    n1 n2 n3 n4 n5 n6 n7 n8 then deploy

Pre-deployment is before everything on every node, and post-deployment after it
    list groups.yaml hooks.yaml
    primary-controller: n1
    controller: n4 n2
    compute: n8
    run
    rsync_puppet then setup_network setup_services then update_hosts
    rsync_puppet@n1 beside rsync_puppet@n8
    setup_services@n1 then setup_network@n4 setup_network@n2
    setup_services@n4 setup_services@n2 then setup_network@n8
    setup_services@n1 then upload_nodes_info@n1 then update_hosts
    update_hosts@n4 beside update_hosts@n2

Tasks of several roles refer to one another: maintenance, migration, reinstallation, back again
    list maintenance.yaml
    primary-controller: n1
    compute: n8 n9
    run
    put_compute_into_maintenance_mode@n1 then migrate_vms_from_compute@n1 then reinstall_ovs then make_compute_available@n1
    reinstall_ovs@n8 beside reinstall_ovs@n9

Without groups tasks run in the order of the seed
    list alternative.yaml
    primary-controller: n1
    controller: n2 n3 n4 n5
    cinder: n6
    ceph-osd: n7
    compute: n8
    run
    n1 then n2 n3 then n4 n5 then n8 n6 n7
    n2 beside n3
    n4 beside n5
    n8 beside n6 beside n7

A group is done one by one, or all at once
    list upgrade.yaml
    database: n1 n2 n3
    worker: n4 n5 n6
    run
    drain then upgrade@n1 then upgrade@n2 then upgrade@n3 then upgrade@n4 upgrade@n5 upgrade@n6 then start_again
    upgrade@n4 beside upgrade@n5 beside upgrade@n6

On a node tasks go one after the other, also those that do not wait for one another
    list apart.yaml
    web: n1 n2
    run
    n1: one at a time
    n2: one at a time
    n1 beside n2

A failure in a chunk ends with that chunk: the other node of it is done, and nothing behind it begins
    list groups.yaml
    primary-controller: n1
    controller: n4 n2 n3
    cinder: n6
    n2 fails
    run
    n1 then setup_network@n4 setup_network@n2
    setup_network@n2: failed
    setup_services@n2: not run
    n3 n6 deploy: not run
    run: failed, setup_network@n2.example.com failed: a task@n2 was told to

From a task to another is what is between them, and the rest is skipped
    list groups.yaml
    primary-controller: n1
    controller: n4 n2 n3
    cinder: n6
    network: n7
    compute: n8
    run --start controller --end network
    n4 n2 then n3 then n7
    n1 n6 n8 deploy: skipped

What is skipped keeps its place: what was around it stays in order
    list upgrade.yaml
    database: n1 n2
    worker: n4
    run --skip upgrade
    upgrade: skipped
    drain then start_again
    drain@n1 beside drain@n4

A node that is skipped keeps its place in the line of its group
    list upgrade.yaml
    database: n1 n2 n3
    worker: n4
    run --skip upgrade/2 --skip drain
    upgrade@n2 drain: skipped
    upgrade@n1 then upgrade@n3 then upgrade@n4 then start_again
