/** One rollout: its groups, the nodes that failed, and its actions. */
import { buttons } from "./actions.js";
import { get } from "./api.js";
import { card, el, link } from "./dom.js";
import { age, badge } from "./format.js";
import { object } from "./object.js";
import { to } from "./router.js";
import { facts, table } from "./table.js";

const OFTEN_SECONDS = 2;
const OVER = ["success", "failed", "cancelled"];

/** Show it in `place`. */
export function rollout(place, { name }) {
  const read = async () => (await get("/v1/rollouts/show", { rollout: name })).answer.document;
  return object(place, { title: name, read, content: (found) => content(name, found), seconds: OFTEN_SECONDS });
}

function content(name, found) {
  const state = found.state;
  const target = { rollout: found.rollout ?? name, attempt: found.attempt };
  const over = OVER.includes(state);
  return [
    el("div", { class: "bar" }, el("h1", {}, found.rollout ?? name, " "), badge(state), buttons(over ? ["retryRollout"] : ["resumeRollout", "cancelRollout"], target)),
    found.reason ? el("p", { class: "reason" }, found.reason) : null,
    facts([
      ["Deployment", link(found.deployment, to("matrix", found.deployment))],
      ["Strategy", found.strategy],
      ["Since", age(found.since)],
      ["Started", age(found.started)],
      ["Attempt", found.attempt],
      ["By", found.by],
      ["Task run", found.task_run],
      ["Nodes", Object.entries(found.nodes).map(([state, names]) => `${names.length} ${state}`).join(", ")],
    ]),
    Object.keys(found.paused ?? {}).length
      ? card("Waits for a person", Object.entries(found.paused).map(([group, batch]) => el("p", {}, `${group} after ${batch} `, buttons(["promote"], { ...target, group }))))
      : null,
    Object.entries(found)
      .filter(([, each]) => Array.isArray(each) && each.length && typeof each[0] === "object")
      .map(([key, rows]) => card(key.replaceAll("_", " "), table(rows, key === "groups" ? { extra: (row) => groupActions(row, target) } : {}))),
  ];
}

function groupActions(row, target) {
  return row.state === "failed" ? buttons(["accept"], { ...target, group: row.group }) : null;
}
