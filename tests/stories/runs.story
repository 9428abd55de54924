# What an annealer does for one run. A story: a title, what the run is (if it is not plain), then one line for each event
# that is heard: the event, what came with it, "->" and the instructions. The last line is the phase at the end.

A run that goes well passes its node on
    CLAIMED                 -> START
    ENDED returned          -> WRITE
    PASSED_ON               -> RECORD HAND_OVER
    OVER

A claim that is refused is tried later
    REFUSED                 -> FORGET FEED CLAIM_LATER
    OVER

A run is cancelled: the jig lets go, the machine ends it, and what it was about to give counts as a failure
    CLAIMED                 -> START
    CANCEL                  -> STOP
    LEFT                    -> CANCEL
    ENDED                   -> WRITE
    WRITTEN                 -> RECORD FORGET FEED LOOK
    OVER

It ends by itself just when it is to be cancelled
    CLAIMED                 -> START
    CANCEL                  -> STOP
    ENDED                   -> WRITE
    REPORTING

A machine is cancelled that does not answer: it is asked again, then judged
    CLAIMED                 -> START
    CANCEL                  -> STOP
    LEFT                    -> CANCEL
    UNREACHED               -> CANCEL_AGAIN
    UNREACHED               -> JUDGE
    DOUBTED                 -> BLAME_LINK LET_GO LEAVE
    RELEASED                -> FORGET FEED LOOK
    OVER

This host fails while it cancels: others do it
    CLAIMED                 -> START
    CANCEL                  -> STOP
    FAULT begun             -> CANCEL_AGAIN
    FAULT begun             -> BLAME_HOST LET_GO LEAVE
    RELEASING

What is taken over to be cancelled is not started
    takeover
    CANCEL                  ->
    CLAIMED                 -> CANCEL
    ENDED                   -> WRITE
    REPORTING

What was ordered with another jig is ended, and nothing is started beside it
    takeover other_jig
    CLAIMED                 -> CANCEL
    ENDED                   -> WRITE
    REPORTING

What must not run twice and cannot be found again is taken over as lost
    takeover destructive blind
    CLAIMED                 -> LOSE
    ENDED                   -> WRITE
    REPORTING

This host fails at what must not run twice and cannot be found again
    destructive blind
    CLAIMED                 -> START
    FAULT ordered begun     -> LOSE
    RUNNING

The same where the machine does not answer
    destructive blind
    CLAIMED                 -> START
    UNREACHED ordered begun -> LOSE
    RUNNING

ZooKeeper does not give the attributes: it is tried until it does
    CLAIMED                 -> START
    UNREAD                  -> AGAIN
    UNREAD                  -> AGAIN
    UNREAD                  -> AGAIN
    RUNNING

Attributes that cannot be decoded: it goes back as if it had not been claimed
    CLAIMED                 -> START
    SPOILED                 -> QUARANTINE LET_GO PUT_BACK
    RELEASING

The same for a run that may go on: it stays in TRANSITION
    takeover
    CLAIMED                 -> START
    SPOILED                 -> QUARANTINE LET_GO LEAVE
    RELEASING

This host fails twice after the order: others attach to the run
    CLAIMED                 -> START
    FAULT ordered begun     -> AGAIN
    FAULT ordered begun     -> BLAME_HOST LET_GO LEAVE
    RELEASED                -> FORGET FEED LOOK
    OVER

This host fails twice before the order: what must not run twice goes back as if it had not been claimed
    destructive
    CLAIMED                 -> START
    FAULT                   -> AGAIN
    FAULT                   -> BLAME_HOST LET_GO PUT_BACK
    RELEASING

A refresh does not go back: its children would wait for it
    destructive refresh
    CLAIMED                 -> START
    FAULT                   -> AGAIN
    FAULT                   -> BLAME_HOST LET_GO LEAVE
    RELEASING

A machine does not answer, and others have not looked yet
    CLAIMED                 -> START
    UNREACHED begun         -> AGAIN
    UNREACHED begun         -> JUDGE
    DOUBTED                 -> BLAME_LINK LET_GO LEAVE
    RELEASING

The same before the order
    destructive
    CLAIMED                 -> START
    UNREACHED               -> AGAIN
    UNREACHED               -> JUDGE
    DOUBTED                 -> BLAME_LINK LET_GO PUT_BACK
    RELEASING

A machine is dead by agreement
    CLAIMED                 -> START
    UNREACHED begun         -> AGAIN
    UNREACHED begun         -> JUDGE
    DEAD                    -> WRITE
    WRITTEN                 -> RECORD FORGET FEED LOOK
    OVER

The noderole's record cannot be read when the run ends: the slot is given back, and the outcome kept
    CLAIMED                 -> START
    ENDED hidden            -> VACATE FEED WAIT
    DUE hidden              -> VACATE FEED WAIT
    DUE                     -> WRITE
    REPORTING

The same for a machine that is dead
    CLAIMED                 -> START
    UNREACHED begun         -> AGAIN
    UNREACHED begun         -> JUDGE
    DEAD hidden             -> VACATE FEED WAIT
    WAITING

The same for a run that is being ended
    CLAIMED                 -> START
    CANCEL                  -> STOP
    ENDED hidden            -> VACATE FEED WAIT
    WAITING

And for one whose machine is dead
    CLAIMED                 -> START
    CANCEL                  -> STOP
    UNREACHED begun         -> CANCEL_AGAIN
    UNREACHED begun         -> JUDGE
    DEAD hidden             -> VACATE FEED WAIT
    WAITING

A death that was refused is judged again: others may have reached the machine meanwhile
    CLAIMED                 -> START
    UNREACHED begun         -> AGAIN
    UNREACHED begun         -> JUDGE
    DEAD                    -> WRITE
    REFUSED                 -> WAIT
    DUE                     -> JUDGE
    DEAD                    -> WRITE
    REFUSED                 -> WAIT
    DUE                     -> JUDGE
    DOUBTED                 -> BLAME_LINK LET_GO LEAVE
    RELEASING

What must not run twice goes back then as if it had not been claimed
    destructive
    CLAIMED                 -> START
    UNREACHED               -> AGAIN
    UNREACHED               -> JUDGE
    DEAD                    -> WRITE
    REFUSED                 -> WAIT
    DUE                     -> JUDGE
    DOUBTED                 -> BLAME_LINK LET_GO PUT_BACK
    RELEASING

But not where it is to be cancelled
    destructive
    CLAIMED                 -> START
    UNREACHED               -> AGAIN
    UNREACHED               -> JUDGE
    DEAD                    -> WRITE
    CANCEL                  ->
    REFUSED                 -> WAIT
    DUE                     -> JUDGE
    DOUBTED                 -> BLAME_LINK LET_GO LEAVE
    RELEASING

An outcome that is refused is written again, and is a failure where the run was cancelled meanwhile
    CLAIMED                 -> START
    ENDED                   -> WRITE
    REFUSED                 -> WAIT
    CANCEL                  ->
    DUE                     -> WRITE
    REPORTING

Somebody writes the attributes that the run changes
    CLAIMED                 -> START
    ENDED returned          -> WRITE
    WALL_CHANGED            -> READ_WALL
    READ returned           -> WRITE
    WALL_CHANGED            -> READ_WALL
    READ hidden             -> VACATE FEED WAIT
    WAITING

The noderole's record cannot be read any more when an outcome that was refused is to be written again
    CLAIMED                 -> START
    ENDED                   -> WRITE
    REFUSED                 -> WAIT
    DUE hidden              -> VACATE FEED WAIT
    WAITING

An outcome is too large with its neighbours, then by itself
    CLAIMED                 -> START
    ENDED returned          -> WRITE
    TOO_LARGE               -> WRITE_ALONE
    TOO_LARGE               -> WRITE_FAILURE
    TOO_LARGE               -> VACATE FEED WAIT
    WAITING

An outcome that gave nothing back is too large: no run is to blame for that
    CLAIMED                 -> START
    ENDED                   -> WRITE
    TOO_LARGE               -> WRITE_ALONE
    TOO_LARGE               -> VACATE FEED WAIT
    WAITING

The noderole goes on without its run
    CLAIMED                 -> START
    SUPERSEDED              -> FORGET FEED LOOK
    OVER

It does while the run is being ended
    CLAIMED                 -> START
    CANCEL                  -> STOP
    SUPERSEDED              -> FORGET FEED LOOK
    OVER

It does while its outcome cannot be written; an outcome that is under way is awaited first
    CLAIMED                 -> START
    ENDED                   -> WRITE
    SUPERSEDED              ->
    REFUSED                 -> WAIT
    SUPERSEDED              -> FORGET FEED LOOK
    OVER

The state machine of noderoles refuses an outcome
    CLAIMED                 -> START
    ENDED                   -> WRITE
    NOT_ALLOWED             -> FORGET FEED LOOK
    OVER

An annealer drains before the claim is answered: what it gives back is its own
    DRAINED drained         ->
    DRAINED drained         ->
    CLAIMED                 -> LET_GO RELEASE
    RELEASED                -> FORGET FEED LOOK
    OVER

The same for what must not run twice: it goes back as if it had not been claimed
    destructive
    DRAINED drained         ->
    CLAIMED                 -> LET_GO PUT_BACK
    RELEASING

The same where the claim is refused
    DRAINED drained         ->
    REFUSED                 -> FORGET FEED CLAIM_LATER
    OVER

While the run goes on
    CLAIMED                 -> START
    DRAINED                 -> LET_GO RELEASE
    RELEASING

While the run is being ended
    CLAIMED                 -> START
    CANCEL                  -> STOP
    DRAINED                 -> LET_GO RELEASE
    RELEASING

While its outcome is under way, then while it waits
    CLAIMED                 -> START
    ENDED                   -> WRITE
    DRAINED drained         ->
    REFUSED                 -> WAIT
    DRAINED drained         -> LET_GO RELEASE
    RELEASING

The session is lost: nothing more is done for what was held
    CLAIMED                 -> START
    SESSION_LOST            -> FORGET
    ENDED                   ->
    OVER
