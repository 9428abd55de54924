/** One rollout: its groups, the nodes that failed, and its actions. */
import { buttons } from "./actions.js";
import { get } from "./api.js";
import { card, el, link } from "./dom.js";
import { age, badge } from "./format.js";
import { legible } from "./log.js";
import { object } from "./object.js";
import { to } from "./router.js";
import { ago, facts, table } from "./table.js";

const OFTEN_SECONDS = 2;
const GROUP_COLUMNS = ["group", "state", "critical", "phase", "batch", "members", "nodes", "since", "reason", "unmet", "accepted", "depends_on"];
const OVER = ["success", "failed", "cancelled"];

/** The row of a rollout; if a group of it waits for a person, that is its reason. */
export function withWait(row) {
  const waits = Object.entries(row.paused ?? {}).map(([group, detail]) => `${group}: ${detail}`);
  return waits.length ? { ...row, reason: [row.reason, ...waits].filter(Boolean).join("; ") } : row;
}

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
    found.reason ? el("p", { class: `reason ${state === "failed" ? "bad" : ""}` }, legible(found.reason)) : null,
    facts([
      ["Deployment", link(found.deployment, to("matrix", found.deployment))],
      ["Strategy", found.strategy],
      ["Since", age(found.since)],
      ["Started", ago(found.started)],
      ["Attempt", found.attempt],
      ["By", found.by],
      ["Task run", found.task_run ? link(found.task_run, to("run", found.task_run)) : null],
      ["Nodes", Object.entries(found.nodes).map(([state, names]) => `${names.length} ${state}`).join(", ")],
    ]),
    Object.keys(found.paused ?? {}).length
      ? card("Waits for a person", Object.entries(found.paused).map(([group, detail]) => el("p", {}, `${group}: ${detail} `, groupActions(found.groups.find((row) => row.group === group) ?? { group }, found))))
      : null,
    Object.entries(found)
      .filter(([, each]) => Array.isArray(each) && each.length && typeof each[0] === "object")
      .map(([key, rows]) => card(`${key[0].toUpperCase()}${key.slice(1).replaceAll("_", " ")}`, table(rows, key === "groups" ? { columns: GROUP_COLUMNS, extra: (row) => groupActions(row, found) } : {}))),
    found.next?.length ? card("The next commands", found.next.map((line) => el("p", {}, el("code", {}, line)))) : null,
  ];
}

/** The actions of a group: those of which the server gives the command. Its attempt is another than that of the rollout. */
function groupActions(row, found) {
  const target = { rollout: found.rollout, group: row.group, attempt: row.attempt };
  const commands = (found.next ?? []).map((line) => line.split(/\s+/)).filter((words) => words[3] === row.group);
  const promotion = commands.find((words) => words[2] === "promote");
  const batch = promotion?.[promotion.indexOf("--batch") + 1];
  if (batch) return buttons(["promote"], { ...target, batch: Number(batch) });
  return commands.some((words) => words[2] === "accept") ? buttons(["accept"], target) : null;
}
