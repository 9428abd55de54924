# What a bind brings. First the roles: "role NAME [requires A B] [conflicts A] [provides A] [flags F]". Then binds:
# "bind ROLE on NODE [in DEPLOYMENT]", and "-> refused TEXT" where it is. Last all that is bound then: "db@n1 <- app@n1"
# says that app waits for db; one line for each edge or more, and every noderole in one of them. Nodes are n1, n2 and n3, in
# deployment system; deployment lab is below that.

What is required and found nowhere is bound on the same node
    role app requires db
    role db
    bind app on n1
    db@n1 <- app@n1

What is required twice is bound once
    role app requires db net
    role db requires net
    role net
    bind app on n1
    net@n1 <- db@n1 <- app@n1
    net@n1 <- app@n1

What another node of the deployment has serves
    role client requires server
    role server
    bind server on n2
    bind client on n1
    server@n2 <- client@n1

What is implicit is bound on each node anew
    role app requires os
    role os flags implicit
    bind os on n2
    bind app on n1
    os@n1 <- app@n1
    os@n2

The nearest deployment wins
    role client requires server
    role server
    bind server on n2
    bind server on n3 in lab
    bind client on n1 in lab
    server@n3 <- client@n1
    server@n2

What provides a role stands in for it
    role app requires ntp
    role ntp flags implicit
    role chrony provides ntp
    bind chrony on n1
    bind app on n1
    chrony@n1 <- app@n1

Every member of a cluster is a parent, also one that comes later
    role osd requires mon
    role mon flags cluster
    bind mon on n1
    bind osd on n3
    bind mon on n2
    mon@n1 <- osd@n3
    mon@n2 <- osd@n3

What is implicit and a cluster is bound on each node, and every one of it is a parent everywhere
    role osd requires os
    role os flags implicit cluster
    bind osd on n1
    bind osd on n2
    os@n1 <- osd@n1
    os@n1 <- osd@n2
    os@n2 <- osd@n1
    os@n2 <- osd@n2

What provides a cluster role becomes a parent of what was bound before
    role client requires mon
    role mon flags cluster
    role tiny provides mon
    bind mon on n1
    bind client on n1
    bind tiny on n2
    mon@n1 <- client@n1
    tiny@n2 <- client@n1

A cluster that provides a plain role is a parent as a whole, also what of it comes later
    role client requires mon
    role mon
    role tiny provides mon flags cluster
    bind tiny on n1
    bind client on n1
    bind tiny on n2
    tiny@n1 <- client@n1
    tiny@n2 <- client@n1

Two that stand in for a third are not on one node
    role chrony provides ntp
    role ntpd provides ntp
    role ntp flags implicit
    role app requires ntpd
    bind chrony on n1
    bind ntpd on n1 -> refused ntpd and chrony, which is bound on n1, both stand in for ntp
    bind app on n1 -> refused noderole unbind chrony@n1
    bind app on n2
    chrony@n1
    ntpd@n2 <- app@n2

A conflict with what the same bind brings says so, and what is bound elsewhere is taken from there
    role app requires left right
    role left
    role right conflicts left
    bind app on n1 -> refused right (required by app) conflicts with left, which the same bind brings (required by app)
    bind app on n1 -> refused bind left on another node first
    bind left on n2
    bind app on n1
    left@n2 <- app@n1
    right@n1 <- app@n1

A conflict of two implicit roles is one of their barclamps
    role app requires left right
    role other
    role left flags implicit
    role right conflicts left flags implicit
    bind other on n1
    bind app on n1 -> refused take one of the requirements away
    other@n1

What stands in for a role is not put below it by a cluster that gets a member
    role client requires mon provides tiny
    role mon flags cluster
    role tiny provides mon
    role leaf requires client
    bind mon on n1
    bind client on n2
    bind leaf on n3
    bind tiny on n1 -> refused tiny and mon, which is bound on n1, stand in for each other
    bind tiny on n3 -> refused client@n2 would stand below tiny@n3
    bind mon on n3
    mon@n1 <- client@n2 <- leaf@n3
    mon@n3 <- client@n2

A second bind changes nothing
    role app requires db
    role db
    bind app on n1
    bind app on n1
    db@n1 <- app@n1

What conflicts with a role that is bound there is refused, on another node it is not
    role a conflicts b
    role b
    bind b on n1
    bind a on n1 -> refused a conflicts with b, which is bound on n1
    bind a on n2
    b@n1
    a@n2

A role whose requirement nobody defines is refused, and nothing of it is bound
    role app requires db gone
    role db
    role other
    bind other on n1
    bind app on n1 -> refused app requires gone, which no imported barclamp defines
    other@n1

What is called a library is bound as any other
    role app requires lib
    role lib flags library
    bind app on n1
    lib@n1 <- app@n1
