# What events do to noderoles and to those below them. First the graph: "a TODO <- b BLOCKED" says that b waits for a;
# without a state one is PROPOSED, and FIELD=VALUE behind it is a field of its record. Then events, as the table has them
# ("node_died" is NODE_DIED), of one noderole or of several at once; "-> refused" where the table has no such pair. What is
# expected stands anywhere behind: "a ACTIVE, b TODO generation=1". The end is all that a story has to say.

A commit lets those begin that wait for nobody
    base <- middle <- top
    commit base middle top
    base TODO generation=1, middle BLOCKED, top BLOCKED

What is done lets the next begin
    base TODO <- middle BLOCKED <- top BLOCKED
    claim base
    succeed base
    base ACTIVE, middle TODO, top BLOCKED

A failure blocks what is below it, however far, and nothing beside it
    base ACTIVE <- dhcp ACTIVE <- os ACTIVE <- app ACTIVE
    base ACTIVE <- dns ACTIVE
    fail dhcp
    dhcp ERROR, os BLOCKED, app BLOCKED, dns ACTIVE, base ACTIVE

A retry runs it again, and what waited goes on
    base ERROR attempt=3 <- top BLOCKED
    retry base
    base TODO attempt=0, top BLOCKED
    claim base
    succeed base
    base ACTIVE, top TODO

One that waits for two begins when both are done
    left TRANSITION <- both BLOCKED
    right TRANSITION <- both
    succeed left
    both BLOCKED
    succeed right
    both TODO

A refresh runs again in place: what is below goes on
    base ACTIVE <- top ACTIVE
    refresh base
    base ACTIVE refresh=True generation=1, top ACTIVE
    claim base
    base TRANSITION, top ACTIVE
    succeed base
    base ACTIVE refresh=False, top ACTIVE

What is destructive and was done is not refreshed
    os ACTIVE once=done <- top ACTIVE
    refresh os -> refused
    os ACTIVE once=done refresh=False

A refresh that fails blocks what is below
    base TRANSITION refresh=True <- top ACTIVE
    fail base
    base ERROR, top BLOCKED

What is taken back blocks what is below
    base ACTIVE <- top ACTIVE
    propose base
    base PROPOSED, top BLOCKED

A machine that died has everything looked at again, parents first
    base ACTIVE <- top ERROR
    node_died base top
    base TODO, top BLOCKED

A destructive role that was done is not run again when its machine was dead
    disk ACTIVE once=done <- os ACTIVE
    node_died disk os
    disk ACTIVE once=done generation=1, os TODO

A destructive role whose end is not known is not run again
    disk TRANSITION once=started <- os BLOCKED
    lose disk
    disk ERROR once=started, os BLOCKED

A person lets a destructive role run again
    disk ACTIVE once=done <- os ACTIVE
    redeploy disk
    disk TODO once=None, os BLOCKED

A run that is to be cancelled is in error when it has ended, whatever it came to
    base TRANSITION <- top BLOCKED
    cancel base
    base TRANSITION cancel_reason=asked
    succeed base -> refused
    fail base
    base ERROR cancel_reason=None, top BLOCKED

What a failed jig leaves to a later attempt is in TODO again
    base TRANSITION attempt=1
    defer base
    base TODO attempt=1 generation=1

What runs is not taken back, and nothing is claimed that waits
    base TRANSITION <- top BLOCKED
    propose base -> refused
    claim top -> refused
    refresh top -> refused
    base TRANSITION, top BLOCKED
