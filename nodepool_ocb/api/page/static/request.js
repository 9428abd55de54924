/** One request for nodes: why it waits, the verdict of each pool, and its nodes. */
import { get } from "./api.js";
import { card, el, link } from "./dom.js";
import { age, badge, clock } from "./format.js";
import { leaseActions } from "./lease.js";
import { legible } from "./log.js";
import { object } from "./object.js";
import { to } from "./router.js";
import { facts, table } from "./table.js";

const OFTEN_SECONDS = 2;

/** Show it in `place`. */
export function request(place, { name }) {
  const read = async () => (await get(`/v1/requests/${encodeURIComponent(name)}`)).answer;
  return object(place, { title: name, read, content, seconds: OFTEN_SECONDS });
}

function content(found) {
  return [
    el("div", { class: "bar" }, el("h1", {}, `Request ${found.name}`), badge(found.state)),
    found.reason ? el("p", { class: `reason ${found.state === "failed" ? "bad" : ""}` }, legible(found.reason)) : null,
    facts([
      ["Labels", found.labels.join(", ")],
      ["Since", age(found.since)],
      ["Place in the queue", found.place],
      ["Waits for", found.waits_for],
      ["Launcher", found.launcher],
      ["Priority", found.priority],
      ["Requestor", found.requestor],
      ["Tenant", found.tenant],
      ["Provider", found.provider],
      ["Ends", found.expires ? clock(found.expires) : null],
    ]),
    card("Pools", table(found.pools, { columns: ["name", "code", "reason", "ever"], empty: "No pool judges it now." })),
    card("Its nodes", table(found.launched, { columns: ["name", "state", "labels", "provider", "pool", "since", "address", "hostname", "launcher", "reason"], forms: { name: (id) => link(id, to("lease", id)) }, extra: leaseActions, empty: "It has no node yet." })),
  ];
}
