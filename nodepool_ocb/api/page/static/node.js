/** One node: its properties, its noderoles, and its actions. */
import { buttons } from "./actions.js";
import { get } from "./api.js";
import { card, el, link } from "./dom.js";
import { age } from "./format.js";
import { legible } from "./log.js";
import { object } from "./object.js";
import { to } from "./router.js";
import { facts, table, value } from "./table.js";

/** Show it in `place`. */
export function node(place, { name }) {
  const read = async () => (await get(`/v1/nodes/${encodeURIComponent(name)}`)).answer;
  return object(place, { title: name, read, content });
}

function content(found) {
  const failed = found.noderoles.filter((each) => each.state === "ERROR").map((each) => each.noderole);
  return [
    el("div", { class: "bar" }, el("h1", {}, found.name), buttons([found.hold ? "release" : "hold"], { nodes: [found.name] }), failed.length ? buttons(["retry"], { noderoles: failed }) : null),
    found.held ? el("p", { class: "reason" }, `held ${found.held}`) : null,
    found.reason ? el("p", { class: `reason ${found.alive ? "" : "bad"}` }, legible(found.reason)) : null,
    facts([
      ["Deployment", link(found.deployment, to("matrix", found.deployment, { l: found.name }))],
      ["Alive", found.virtual ? "virtual" : value("", found.alive)],
      ["Available", value("", found.available)],
      ["Since", age(found.since)],
      ["Rack", found.rack],
      ["Addresses", found.virtual ? null : found.addresses.join(", ") || "it has no address"],
      ["Login", found.virtual ? null : found.user],
      ["Host keys", found.virtual ? null : found.host_keys.length ? found.host_keys.map((key) => key.split(" ", 1)[0]).join(", ") : "none is pinned yet"],
      ["Tags", found.tags.join(", ")],
      ["Labels", Object.entries(found.labels).map(([key, each]) => `${key}=${each}`).join(", ")],
      ["Claim", found.claim ? value("", found.claim) : null],
    ]),
    card("Noderoles", table(found.noderoles)),
    el("p", { class: "links" }, link("History of this node", to("history", "", { l: found.name })), " ", link("Its timeline", to("timeline", found.deployment, { l: found.name }))),
  ];
}
