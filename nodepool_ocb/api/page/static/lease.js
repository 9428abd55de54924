/** One node of a pool: its state, the address at which it is reached, and its actions. */
import { buttons } from "./actions.js";
import { get } from "./api.js";
import { el, link } from "./dom.js";
import { age, badge, clock } from "./format.js";
import { legible } from "./log.js";
import { object } from "./object.js";
import { to } from "./router.js";
import { facts } from "./table.js";

const OFTEN_SECONDS = 2;
/** The actions that make sense in a state; in each other one a node may only be deleted. */
const BY_STATE = {
  ready: ["holdLease", "deleteLease"],
  "in-use": ["returnLease", "holdLease", "deleteLease"],
  used: ["holdLease", "deleteLease"],
  failed: ["holdLease", "deleteLease"],
  hold: ["releaseLease", "deleteLease"],
  deleting: [],
  deleted: [],
};

/** Show it in `place`. */
export function lease(place, { name }) {
  const read = async () => (await get(`/v1/pool-nodes/${encodeURIComponent(name)}`)).answer;
  return object(place, { title: name, read, content, seconds: OFTEN_SECONDS });
}

/** The buttons of a node of a pool. */
export function leaseActions(row) {
  return buttons(BY_STATE[row.state] ?? ["deleteLease"], { leases: [row.name] });
}

function content(found) {
  return [
    el("div", { class: "bar" }, el("h1", {}, `Node of a pool ${found.name}`), badge(found.state), leaseActions(found)),
    found.reason ? el("p", { class: "reason bad" }, legible(found.reason)) : null,
    found.comment ? el("p", { class: "reason" }, legible(found.comment)) : null,
    facts([
      ["Labels", found.labels.join(", ")],
      ["Since", age(found.since)],
      ["Provider", found.provider],
      ["Pool", found.pool],
      ["Request", found.request ? link(found.request, to("request", found.request)) : null],
      ["Address", found.address ?? "it has no address"],
      ["Port", found.port],
      ["Login", found.user],
      ["Host name", found.hostname],
      ["Id at the provider", found.external_id],
      ["Launcher", found.launcher],
      ["Lock", found.holder],
      ["Hold until", found.until ? clock(found.until) : null],
    ]),
    el("p", { class: "links" }, link("History of this node", to("history", "", { l: found.name }))),
  ];
}
