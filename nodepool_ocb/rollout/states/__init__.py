"""The state machines of a rollout, its groups, and its members: three tables, and the functions that apply them.

A rollout:

- BEGIN makes the record. STOP and GIVE_UP follow from a critical group that failed, by its ``on_critical_failure``; TRIP follows
  from the breaker; CANCEL is a person's.
- In ``stopping`` no further group begins. In ``cancelling`` no further node is sent, and nodes that have not begun are taken
  back.
- The rollout is over (SUCCEED, FAIL, CANCELLED) when every group is over and no node is in flight. CANCELLED
  follows a person's CANCEL.
- RESUME, RETRY and ACCEPT are a person's. Each raises ``attempt``.

A group:

- PLAN makes the record, START begins the first phase of the first batch. A phase that begins changes no state.
- FAIL follows from the criteria of the group, from a time-out, or from others: a dependency failed, or the rollout is stopped or
  cancelled. REOPEN puts a group back that failed because of others, when these do not stand in its way any more.
- PAUSE follows a batch that has ``pause``, NEXT begins the next batch.
- RETRY puts a group back that failed, or that succeeded and has a member that is put back.

A member, a node of the rollout:

- ENTER makes it. SEND takes it in flight for a phase. SENT follows when its noderoles are committed; the time of the state stays.
- PASS ends a phase, FINISH the last phase, FAIL a phase that failed. TIME_OUT: its group ran out of time, and a noderole may
  still be at work; a later event tells how the phase ended.
- RECALL takes a member back before its phase is done, RETRY puts a member back that failed. If the member has passed a phase
  before, RECALL_PREPARED and RETRY_PREPARED stand in their place.

Pure: the time is an argument. The rules that choose the events are in rollout/rounds/ and rollout/commands.py.
"""
