"""What a run can be in, what an annealer can hear of it, and what it can be told to do: the comments stand in docs/runs.md."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Where a run is."""

    CLAIMING = "CLAIMING"  # the claim is sent, and not answered
    RUNNING = "RUNNING"  # its jig has the order, or is about to get it
    CANCELLING = "CANCELLING"  # it is to end: its jig leaves it alone, then the machine ends it
    REPORTING = "REPORTING"  # its outcome is known, and sent to be written
    WAITING = "WAITING"  # its outcome is known, and cannot be written now
    RELEASING = "RELEASING"  # the node is being given back; what was begun goes on
    OVER = "OVER"  # nothing of it is held any more


class Event(StrEnum):
    """What an annealer can hear of a run."""

    CLAIMED = "CLAIMED"  # the claim is written
    REFUSED = "REFUSED"  # the claim, or the outcome, was not written
    CANCEL = "CANCEL"  # its noderole says that it is to be cancelled
    SUPERSEDED = "SUPERSEDED"  # its noderole, or its node, went on without it
    LEFT = "LEFT"  # the jig has left the run alone, as it was told to
    UNREAD = "UNREAD"  # ZooKeeper did not give its attributes; nothing was ordered
    SPOILED = "SPOILED"  # its attributes cannot be decoded; nothing was ordered
    SEALED = "SEALED"  # its order cannot be prepared, as where a secret cannot be opened; nothing was ordered
    FAULT = "FAULT"  # this host failed while it asked the machine: the outcome is not known
    UNREACHED = "UNREACHED"  # the machine does not answer
    DOUBTED = "DOUBTED"  # the machine does not answer, but others have not looked yet, or this host may be at fault
    DEAD = "DEAD"  # the machine does not answer, and is dead by agreement
    ENDED = "ENDED"  # its outcome is known
    WRITTEN = "WRITTEN"  # the outcome is written, and the node is given back
    PASSED_ON = "PASSED_ON"  # the outcome is written, and the node is claimed for its next noderole
    TOO_LARGE = "TOO_LARGE"  # the outcome is more than one transaction may hold
    UNWRITABLE = "UNWRITABLE"  # the outcome has a value that no record may hold
    WALL_CHANGED = "WALL_CHANGED"  # the outcome was refused: somebody wrote the noderole's attributes meanwhile
    READ = "READ"  # those are read, and the outcome goes on top of them
    DUE = "DUE"  # the timer to write the outcome again is due
    RELEASED = "RELEASED"  # the answer to giving the node back, whatever it is
    DRAINED = "DRAINED"  # the annealer ends, and its time to wait for runs is over
    NOT_ALLOWED = "NOT_ALLOWED"  # the state machine of noderoles refuses the outcome
    SESSION_LOST = "SESSION_LOST"  # the session that made the claim is over


class Do(StrEnum):
    """What an annealer is to do."""

    START = "START"  # give the jig its order, in a slot
    AGAIN = "AGAIN"  # give the jig its order again, after a second
    STOP = "STOP"  # tell the jig to leave the run alone
    CANCEL = "CANCEL"  # have what runs on the machine ended
    CANCEL_AGAIN = "CANCEL_AGAIN"  # have what runs on the machine ended, after a second
    LOSE = "LOSE"  # hear that it ENDED: nobody can know how
    JUDGE = "JUDGE"  # find out whether the machine is dead by agreement: hear DEAD or DOUBTED
    WRITE = "WRITE"  # write the outcome; with it claim the next noderole of the node, if there is one
    WRITE_ALONE = "WRITE_ALONE"  # write the outcome without any neighbour
    WRITE_FAILURE = "WRITE_FAILURE"  # write that what it gave back is too large, or cannot be kept
    READ_WALL = "READ_WALL"  # read the attributes that somebody wrote meanwhile
    WAIT = "WAIT"  # make a timer to write again
    RECORD = "RECORD"  # count the run, and tidy after it
    HAND_OVER = "HAND_OVER"  # go on with the noderole that was claimed with the outcome, in the same slot
    LET_GO = "LET_GO"  # tell the jig that the node is not ours any more
    QUARANTINE = "QUARANTINE"  # claim nothing that sees the spoiled attributes until they are mended
    SET_ASIDE = "SET_ASIDE"  # claim the noderole again after a while that doubles
    BLAME_HOST = "BLAME_HOST"  # hold it against this host
    BLAME_LINK = "BLAME_LINK"  # hold it against the way from this host to the machine
    PUT_BACK = "PUT_BACK"  # give the node back, and the noderole as if it had not been claimed
    LEAVE = "LEAVE"  # give the node back, with a word in the noderole on why
    RELEASE = "RELEASE"  # give the node back
    VACATE = "VACATE"  # give the slot back
    FORGET = "FORGET"  # tell the jig that the node is not ours any more, forget the run, and give its slot back
    FEED = "FEED"  # look at nodes that wait for a slot
    CLAIM_LATER = "CLAIM_LATER"  # claim the noderole again after a while
    LOOK = "LOOK"  # look at the node again: delete a claim that nothing stands behind, claim what may start
