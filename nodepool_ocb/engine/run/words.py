"""The phases of a run, its events and its instructions: the comments are printed in docs/runs.md."""

from __future__ import annotations

from enum import StrEnum


class RunPhase(StrEnum):
    """The phase of a run."""

    CLAIMING = "CLAIMING"  # the claim is sent, and not answered
    RUNNING = "RUNNING"  # its jig has the order, or is about to get it
    BOOTING = "BOOTING"  # its machine is installed, and may be away; no slot is held
    CANCELLING = "CANCELLING"  # it must end: its jig lets go of it, then the machine ends it
    REPORTING = "REPORTING"  # its outcome is known, and sent to be written
    WAITING = "WAITING"  # its outcome is known, and cannot be written now
    RELEASING = "RELEASING"  # the node is being given back; a run that was begun goes on
    OVER = "OVER"  # the annealer holds nothing of it any more


class RunEvent(StrEnum):
    """The events of a run that reach an annealer."""

    CLAIMED = "CLAIMED"  # the claim is written
    REFUSED = "REFUSED"  # the claim, or the outcome, was not written
    CANCEL = "CANCEL"  # its noderole says that it is to be cancelled
    SUPERSEDED = "SUPERSEDED"  # its noderole, or its node, went on without it
    LEFT = "LEFT"  # the jig has left the run alone, as it was told to
    BOOTS = "BOOTS"  # the jig says that the machine must be installed; nothing was ordered from it
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
    WALL_CHANGED = "WALL_CHANGED"  # the outcome was refused: another client wrote the noderole's attributes meanwhile
    READ = "READ"  # the present records were read; the outcome is applied to them
    DUE = "DUE"  # the timer to write the outcome again is due
    RELEASED = "RELEASED"  # any answer to the transaction that gives the node back
    DRAINED = "DRAINED"  # the annealer ends, and its time to wait for runs is over
    NOT_ALLOWED = "NOT_ALLOWED"  # the state machine of noderoles refuses the outcome
    SESSION_LOST = "SESSION_LOST"  # the session that made the claim is over


class Do(StrEnum):
    """The instructions to an annealer."""

    START = "START"  # give the jig its order, in a slot
    INSTALL = "INSTALL"  # begin the installation, or continue it at the step in its record
    ABORT = "ABORT"  # raise ENDED with the reason of the cancellation
    AGAIN = "AGAIN"  # give the jig its order again, after a second
    STOP = "STOP"  # tell the jig to leave the run alone
    CANCEL = "CANCEL"  # end the run on the machine
    CANCEL_AGAIN = "CANCEL_AGAIN"  # end the run on the machine, after a second
    LOSE = "LOSE"  # raise ENDED with an unknown result
    JUDGE = "JUDGE"  # find out whether the machine is dead by agreement: hear DEAD or DOUBTED
    WRITE = "WRITE"  # write the outcome; with it claim the next noderole of the node, if there is one
    WRITE_ALONE = "WRITE_ALONE"  # write the outcome without any neighbour
    WRITE_FAILURE = "WRITE_FAILURE"  # write that its returned attributes are too large, or cannot be kept
    READ_WALL = "READ_WALL"  # read the attributes that another client wrote meanwhile
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
    LOOK = "LOOK"  # look at the node again: delete a claim without an owner, claim a noderole that may start
