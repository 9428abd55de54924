"""What binding a role to a node creates, or why it may not be: planned whole, then written in one transaction.

A role's parents are the noderoles of the roles that it requires. Each is looked for on the same node, then, unless the
required role is *implicit*, in the deployment and its ancestors, nearest first, then by the node's name; a role that
*provides* the required one counts as it. What is found nowhere is bound too, on the same node; what is implicit, wherever
it is not there yet. Every noderole of a *cluster* role in the deployment is a parent, also of children bound earlier: they
name the cluster, and each member says which clusters it serves (a role that provides the cluster role serves it, too). So
it is where what was found for a plain role is of a cluster role. Two roles that provide the same third are not on one
node. A wanted attribute adds the noderole that
declares it as a parent where one is found, and binds nothing.

Pure. The same world gives the same plan, whichever order its roles came in. Sources: seed 000, "How the noderole graph is
built"; seed 001.
"""

from __future__ import annotations

from nodepool_ocb.engine.binding.bind import plan, plan_all, restore
from nodepool_ocb.engine.binding.refusals import MOST_PARENTS
from nodepool_ocb.engine.binding.removal import removable, removable_together
from nodepool_ocb.engine.binding.transaction import Plan

__all__ = ["MOST_PARENTS", "Plan", "plan", "plan_all", "removable", "removable_together", "restore"]
