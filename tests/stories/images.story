# What becomes of the builds and uploads of an image. One builder has the image; the providers cloud and edge are to have it, and
# two ready builds are kept. "begin" begins a build if one is due; "not due TEXT" says why none is, in part. "send BUILD@PROVIDER"
# begins an attempt if that is due. "die" and "lose" free all locks; after "lose" the builder goes on. "tidy" carries out the rules
# until they ask for nothing. "pass 2 days" (hours, minutes) lets time pass. Every other event of images/states.py is "EVENT BUILD"
# or "EVENT BUILD@PROVIDER"; "-> refused" where the table has no such pair, or nothing is due. What is expected stands anywhere
# behind: "1 ready, 1@cloud failed attempt=2, 2 gone".

A missing image is built, and sent to each provider
    begin
    1 building
    succeed 1
    1 ready
    send 1@cloud
    send 1@edge
    1@cloud uploading, 1@edge uploading
    succeed 1@cloud
    fail 1@edge
    1@cloud ready, 1@edge failed
    send 1@cloud -> refused
    not due young enough

A build that failed is tried again after a minute, and is kept to be read
    begin
    fail 1
    1 failed
    not due failed
    pass 1 minutes
    begin
    succeed 2
    tidy
    1 failed, 2 ready
    pass 1 days
    tidy
    1 gone, 2 ready

An upload that failed is tried again under the same record
    begin
    succeed 1
    send 1@cloud
    fail 1@cloud
    send 1@cloud -> refused
    pass 1 minutes
    send 1@cloud
    1@cloud uploading attempt=2
    succeed 1@cloud
    tidy
    1@cloud ready attempt=2

A build of a builder that died is aborted and removed, and another one is due
    begin
    die
    abandon 1
    1 aborted
    begin
    1 aborted, 2 building
    tidy
    1 gone, 2 building

A builder that lost its session goes on with its build
    begin
    lose
    abandon 1
    1 aborted
    resume 1
    1 building
    succeed 1
    1 ready

An end is written again if its answer was lost
    begin
    succeed 1
    resume 1
    succeed 1
    1 ready

A build that a person deletes is not resumed, and has no end
    begin
    delete 1
    1 delete
    succeed 1 -> refused
    fail 1 -> refused
    resume 1 -> refused
    delete 1 -> refused
    die
    tidy
    1 gone

Two ready builds are kept, with their uploads
    begin
    succeed 1
    send 1@cloud
    succeed 1@cloud
    pass 2 days
    begin
    succeed 2
    send 2@cloud
    succeed 2@cloud
    pass 2 days
    begin
    succeed 3
    tidy
    1 ready, 1@cloud ready, 2 ready, 3 ready
    send 3@cloud
    succeed 3@cloud
    tidy
    1 gone, 1@cloud gone, 2@cloud ready, 3@cloud ready

A deleted build waits for an upload that is under way
    begin
    succeed 1
    send 1@cloud
    delete 1
    tidy
    1 delete, 1@cloud uploading
    succeed 1@cloud
    1@cloud ready
    tidy
    1 gone, 1@cloud gone

An upload that is deleted while it is sent stays so, and its end is noted
    begin
    succeed 1
    send 1@cloud
    lose
    delete 1@cloud
    1@cloud delete
    succeed 1@cloud
    1@cloud delete external_id=e1
    tidy
    1 ready, 1@cloud gone

An upload of a builder that died has failed, and is tried again
    begin
    succeed 1
    send 1@cloud
    die
    tidy
    1@cloud failed attempt=1
    pass 1 minutes
    send 1@cloud
    1@cloud uploading attempt=2

An upload that others gave up ends as its provider says
    begin
    succeed 1
    send 1@cloud
    lose
    abandon 1@cloud
    1@cloud failed
    succeed 1@cloud
    1@cloud ready

A build with a spoiled file is ready no more, and another one is due
    begin
    succeed 1
    send 1@cloud
    succeed 1@cloud
    send 1@edge
    spoil 1@edge
    1@edge delete
    spoil 1
    1 failed, 1@cloud ready
    pass 1 minutes
    begin
    succeed 2
    tidy
    1 failed, 1@cloud ready, 1@edge gone, 2 ready

A build of Nodepool is ready, and its uploads go with it
    import_ready 1
    import_ready 1@cloud
    1 ready, 1@cloud ready
    delete 1
    tidy
    1 gone, 1@cloud gone
