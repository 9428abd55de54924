/** One rollout: its groups, the nodes that failed, and its actions. */
import { buttons } from "./actions.js";
import { get, Refused } from "./api.js";
import { card, el, link, show } from "./dom.js";
import { age, badge } from "./format.js";
import { follow } from "./live.js";
import { to } from "./router.js";
import { facts, table } from "./table.js";

const OFTEN_SECONDS = 2;
const OVER = ["success", "failed", "cancelled"];

/** Show it in `place`. */
export function rollout(place, { name }) {
  let before = null;
  const load = async () => {
    try {
      const found = (await get("/v1/rollouts/show", { rollout: name })).answer.document;
      const text = JSON.stringify(found);
      if (text !== before) show(place, content(name, found));
      before = text;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      before = null;
      show(place, el("h1", {}, name), el("p", { class: "fault", role: "alert" }, error.message));
    }
  };
  load();
  return follow(load, OFTEN_SECONDS);
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
