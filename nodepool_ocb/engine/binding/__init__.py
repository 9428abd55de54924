"""Binding a role to a node: the noderoles to create, or the refusal. Planned whole, then written in one transaction.

A role's parents are the noderoles of the roles that it requires. Each is looked for on the same node first. Unless the
required role is *implicit*, it is looked for next in the deployment and its ancestors, nearest first, then by the node's
name. A role that *provides* the required one counts as it. A required role that is found nowhere is bound too, on the same
node. An implicit role is bound on the same node if it is not there yet.

Every noderole of a *cluster* role in the deployment is a parent, also of children bound earlier. Such children name the
cluster, and each member names the clusters that it serves. A role that provides the cluster role serves it, too. The same
holds if the noderole found for a plain role belongs to a cluster. Two roles that provide the same third one cannot be on
one node. A wanted attribute adds the noderole that declares it as a parent, if one is found. It binds nothing.

Pure. The same world gives the same plan, in any order of the roles. Sources: seed 000, "How the noderole graph is
built"; seed 001.
"""

from __future__ import annotations

from nodepool_ocb.engine.binding.bind import plan, plan_all, restore
from nodepool_ocb.engine.binding.refusals import MOST_PARENTS
from nodepool_ocb.engine.binding.removal import removable, removable_together
from nodepool_ocb.engine.binding.transaction import BindPlan

__all__ = ["MOST_PARENTS", "BindPlan", "plan", "plan_all", "removable", "removable_together", "restore"]
