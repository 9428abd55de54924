/** The noderoles that a person has chosen in the matrix, and the actions for them. */
import { buttons } from "./actions.js";
import { el, show } from "./dom.js";
import { counted, inRacks, parts } from "./format.js";

/** A choice; `changed` is called after each change. */
export class Choice {
  constructor(changed) {
    this.names = new Set(); // ROLE@FQDN
    this.all = false; // whether it is all that the filter shows
    this.changed = changed;
  }

  has(node, role) {
    return this.names.size > 0 && this.names.has(`${role}@${node}`);
  }

  /** Choose these, or leave them out if all are chosen already. */
  toggle(names) {
    const every = names.every((name) => this.names.has(name));
    for (const name of names) {
      if (every) this.names.delete(name);
      else this.names.add(name);
    }
    this.all = false;
    this.changed();
  }

  /** Choose all of these, or none if all are chosen. */
  toggleAll(names) {
    const none = this.names.size === names.length;
    this.names = new Set(none ? [] : names);
    this.all = !none;
    this.changed();
  }

  /** Leave out those that do not exist any more. */
  keep(existing) {
    if (this.names.size === 0) return;
    for (const name of this.names) if (!existing.has(name)) this.names.delete(name);
  }
}

/** Show the choice with its actions; `selector` means all that the filter shows. */
export function showChoice(place, choice, racks, selector) {
  if (choice.names.size === 0) {
    show(place, el("span", { class: "quiet" }, "x chooses a noderole, X all that is shown."));
    return;
  }
  const names = [...choice.names].sort();
  const nodes = [...new Set(names.map((name) => parts(name).node))];
  const target = choice.all ? { selector } : { noderoles: names };
  show(
    place,
    el("strong", {}, `${counted(names.length, "noderole")} on ${counted(nodes.length, "node")}`, inRacks(perRack(nodes, racks))),
    buttons(["retry", "refresh", "commit", "propose", "cancel", "redeploy"], target),
    el("span", { class: "quiet acting" }, "their nodes:"),
    buttons(["hold", "release"], { nodes }),
  );
}

function perRack(nodes, racks) {
  const counts = new Map();
  for (const node of nodes) if (racks.get(node)) counts.set(racks.get(node), (counts.get(racks.get(node)) ?? 0) + 1);
  return Object.fromEntries(counts);
}
