# How a rollout ends. First the groups, in the order of their document: "group NAME [critical] [after A B] [least N] [most N
# lost] of NODE..." (nobody is no node); then "NODE fails in PHASE" (prepare or deploy) and "NODE works". "run" carries it out until it is over,
# "retry" sends again what failed, and "accept GROUP" lets its failure count as success. What is expected stands behind:
# "rollout: failed", "GROUP: failed, REASON", "NODE: not started".

When every node succeeds it is a success
    group control critical of c1 c2
    group compute after control of n1
    run
    rollout: success
    compute: success
    n1: success

A critical group that fails fails the rollout, and what depends on it is not sent
    group control critical least 2 of c1 c2
    group compute after control of n1
    c1 fails in deploy
    run
    rollout: failed
    control: failed, deploy
    compute: failed, dependency
    c1: failure
    c2: success
    n1: not started

A group that is not critical may fail
    group extra most 0 lost of n1 n2
    group control critical of c1
    n1 fails in prepare
    run
    rollout: success
    extra: failed, prepare
    n1: failure
    n2: prepared

What succeeds enough is a success, though nodes failed
    group control critical least 1 of c1 c2
    c1 fails in prepare
    run
    rollout: success
    control: success
    c1: failure

What failed is sent again by a retry, and what depends on it follows
    group control critical least 2 of c1 c2
    group compute after control of n1
    c1 fails in deploy
    run
    rollout: failed
    c1 works
    retry
    run
    rollout: success
    c1: success
    n1: success

A failure that somebody accepts counts as success
    group control critical least 2 of c1 c2
    group compute after control of n1
    c1 fails in deploy
    run
    accept control
    run
    rollout: success
    control: failed, deploy
    n1: success

A node that failed in one group has failed in the next, and is not sent again
    group first of n1
    group second most 0 lost of n1 n2
    n1 fails in deploy
    run
    first: success
    second: failed, prepare
    n2: prepared
    n1: failure

A critical group of no nodes fails its minimum, and the others go on
    group control critical least 1 of nobody
    group compute after control of n1
    group extra of n2
    run
    rollout: failed
    control: failed, prepare
    compute: failed, dependency
    n1: not started
    n2: success
