/** One node: its properties, its noderoles, and its actions. */
import { buttons } from "./actions.js";
import { get, Refused } from "./api.js";
import { card, el, link, show } from "./dom.js";
import { age } from "./format.js";
import { follow } from "./live.js";
import { to } from "./router.js";
import { facts, table, value } from "./table.js";

/** Show it in `place`. */
export function node(place, { name }) {
  let before = null;
  const load = async () => {
    try {
      const found = (await get(`/v1/nodes/${encodeURIComponent(name)}`)).answer;
      const text = JSON.stringify(found);
      if (text !== before) show(place, content(found));
      before = text;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      before = null;
      show(place, el("h1", {}, name), el("p", { class: "fault", role: "alert" }, error.message));
    }
  };
  load();
  return follow(load);
}

function content(found) {
  const failed = found.noderoles.filter((each) => each.state === "ERROR").map((each) => each.noderole);
  return [
    el("div", { class: "bar" }, el("h1", {}, found.name), buttons([found.hold ? "release" : "hold"], { nodes: [found.name] }), failed.length ? buttons(["retry"], { noderoles: failed }) : null),
    found.held ? el("p", { class: "reason" }, `held ${found.held}`) : null,
    found.reason ? el("p", { class: "reason" }, found.reason) : null,
    facts([
      ["Deployment", link(found.deployment, to("matrix", found.deployment, { l: found.name }))],
      ["Alive", found.virtual ? "virtual" : value("", found.alive)],
      ["Available", value("", found.available)],
      ["Since", age(found.since)],
      ["Rack", found.rack],
      ["Addresses", found.addresses.join(", ")],
      ["Tags", found.tags.join(", ")],
      ["Labels", Object.entries(found.labels).map(([key, each]) => `${key}=${each}`).join(", ")],
      ["Claim", found.claim ? value("", found.claim) : null],
    ]),
    card("Noderoles", table(found.noderoles)),
    el("p", {}, link("History of this node", to("history", "", { l: found.name }))),
  ];
}
