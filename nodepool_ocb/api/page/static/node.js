/** One node: its properties, its noderoles, and its actions. */
import { buttons } from "./actions.js";
import { Refused, get } from "./api.js";
import { card, el, link } from "./dom.js";
import { age } from "./format.js";
import { legible } from "./log.js";
import { object } from "./object.js";
import { to } from "./router.js";
import { facts, table, value } from "./table.js";

/** Show it in `place`. */
export function node(place, { name }) {
  const read = async () => {
    const found = (await get(`/v1/nodes/${encodeURIComponent(name)}`)).answer;
    return { ...found, power: await powerOf(name) };
  };
  return object(place, { title: name, read, content });
}

/** The power of a node; null without power settings, and for a token that may not see them. */
async function powerOf(name) {
  try {
    return (await get("/v1/power", { nodes: name })).answer[0] ?? null;
  } catch (fault) {
    if (fault instanceof Refused && [403, 404].includes(fault.problem.status)) return null;
    throw fault;
  }
}

/** The state of the power, the request under way or the newest failure, and the requests. */
function power(found) {
  const { power: state, seen, request, trouble, driver, address } = found.power;
  const choices = request ? [] : [state === "on" ? "powerOff" : "powerOn", "powerCycle", "powerCheck"];
  return card(
    "Power",
    el("div", { class: "bar" }, el("span", {}, `${state}${seen ? `, ${age(seen)}` : ", never asked"} (${driver}${address ? ` at ${address}` : ""})`), buttons(choices, { nodes: [found.name] })),
    request ? el("p", {}, request) : null,
    trouble ? el("p", { class: "reason bad" }, legible(trouble)) : null,
  );
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
    found.power ? power(found) : null,
    card("Noderoles", table(found.noderoles)),
    el("p", { class: "links" }, link("History of this node", to("history", "", { l: found.name })), " ", link("Its timeline", to("timeline", found.deployment, { l: found.name }))),
  ];
}
