/** One run of a task list: its state, and the outcome of each task on each node, failures first. */
import { buttons } from "./actions.js";
import { get } from "./api.js";
import { card, el, link } from "./dom.js";
import { badge } from "./format.js";
import { object } from "./object.js";
import { legible } from "./log.js";
import { to } from "./router.js";
import { ago, facts, table } from "./table.js";

const OFTEN_SECONDS = 2;
const BAD = ["failed", "not run", "running", "queued"];
const RAN = ["failed", "running", "successful"]; // with a noderole, which has the output

/** Show it in `place`. */
export function taskrun(place, { name }) {
  const read = async () => (await get("/v1/task-runs/history", { run: name })).answer;
  return object(place, { title: name, read, content, seconds: OFTEN_SECONDS });
}

function content(found) {
  const [deployment] = found.run.split("/");
  const counts = new Map();
  for (const each of found.instances) counts.set(each.state, (counts.get(each.state) ?? 0) + 1);
  const rank = (row) => (BAD.includes(row.state) ? BAD.indexOf(row.state) : BAD.length);
  const rows = [...found.instances].sort((one, other) => rank(one) - rank(other));
  const task = (row) => (row.node !== null && RAN.includes(row.state) ? link(row.task, to("noderole", `${deployment}.${row.task}@${row.node}`)) : row.task);
  const lines = rows.map((row) => ({ ...row, task: task(row) }));
  return [
    el("div", { class: "bar" }, el("h1", {}, found.run), badge(found.state), found.ended === null ? buttons(["stopTasks"], { run: found.run }) : null),
    found.reason ? el("p", { class: `reason ${found.state === "failed" ? "bad" : ""}` }, legible(found.reason)) : null,
    facts([
      ["Deployment", link(deployment, to("matrix", deployment))],
      ["Selection", found.what],
      ["Started", ago(found.started)],
      ["Ended", found.ended ? ago(found.ended) : null],
      ["By", found.by],
      ["Goes on with", found.again],
      ["Rollout", found.rollout ? link(found.rollout, to("rollout", found.rollout)) : null],
      ["Instances", [...counts].map(([state, count]) => `${count} ${state}`).join(", ")],
    ]),
    card("Tasks on nodes", table(lines, { columns: ["task", "node", "state", "started", "ended", "exit_code", "attempts", "why"], empty: "It has no task yet." })),
  ];
}
