/** The overview: errors by cause first, then the present work, then the whole system. */
import { buttons } from "./actions.js";
import { get, Refused } from "./api.js";
import { card, el, link, show } from "./dom.js";
import { age, badge, clock, counted, inRacks, STATES } from "./format.js";
import { follow } from "./live.js";
import { legible } from "./log.js";
import { withWait } from "./rollout.js";
import { to } from "./router.js";
import { table } from "./table.js";
import { stopped, troubles } from "./troubles.js";

const OFTEN_SECONDS = 5;
const MOST_WAITING = 2000; // noderoles in TODO of which the oldest are looked for
const MOST_DEPLOYMENTS = 8; // with progress, until a person wants all
const MOST_CAUSES = 20; // the same
const MOST_RUNNING = 20; // the same
const MOST_NODES = 10; // the same
const OLDEST = 5;

/** Show it in `place`. */
export function overview(place) {
  const names = ["counts", "stopped", "aside", "errors", "work", "progress", "system"];
  const places = Object.fromEntries(names.map((name) => [name, el("div", { class: `part stack part-${name}` })]));
  show(place, el("h1", { class: "aside" }, "Overview"), Object.values(places));
  const seen = {};
  const want = { deployments: false, causes: false }; // all of them
  const put = (name, key, content) => {
    const text = JSON.stringify(key);
    if (seen[name] !== text) show(places[name], content());
    seen[name] = text;
  };
  const load = async () => {
    const steps = [causes(put, want, load), status(put), progress(put, want, load)];
    for (const each of await Promise.allSettled(steps)) {
      if (each.status === "rejected" && !(each.reason instanceof Refused)) throw each.reason;
    }
  };
  load();
  return follow(load, OFTEN_SECONDS);
}

/** Run a part; a refusal stands in its place. */
async function refusable(put, name, work) {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    put(name, error.message, () => el("p", { class: "fault" }, error.message));
  }
}

// -- errors --

function causes(put, want, load) {
  return refusable(put, "errors", async () => {
    const rows = (await get("/v1/causes")).answer;
    const shown = want.causes ? rows : rows.slice(0, MOST_CAUSES);
    put("errors", [rows, shown.length], () => card(rows.length ? "Errors by cause" : "No errors", shown.map(cause), wanted(want, "causes", rows.length - shown.length, rows.length, load)));
  });
}

/** A button that shows all of a list, if `left` of it are not shown. */
function wanted(want, name, left, all, load) {
  const pressed = () => {
    want[name] = true;
    load();
  };
  return left > 0 ? el("button", { type: "button", "data-key": `all ${name}`, onclick: pressed }, `Show all ${all.toLocaleString("en")} ${name}`) : null;
}

function cause(row) {
  const filter = `failed role:${row.roles.join(",")}`;
  const entry = row.before;
  return el(
    "article",
    { class: "cause", "data-row": true },
    el("h3", {}, link(`${counted(row.noderoles, "noderole")}: ${legible(row.cause)}`, to("noderole", row.examples[0]))),
    el(
      "p",
      {},
      `on ${counted(row.nodes, "node")}`,
      inRacks(row.racks),
      `; first ${clock(row.first)}, `,
      age(row.first),
      " ago; last ",
      age(row.last),
      " ago",
    ),
    entry ? el("p", { class: "quiet" }, `Before the first: ${clock(entry.at)} ${entry.login}: ${entry.verb} ${entry.subjects.slice(0, 2).join(", ")}${entry.reason ? ` (${entry.reason})` : ""}`) : null,
    el("p", { class: "quiet" }, "For example ", row.examples.map((name, n) => [n ? ", " : "", link(name, to("noderole", name))])),
    row.deployments.map((name) => [
      link(`Matrix of ${name}`, to("matrix", name, { l: filter })),
      " ",
    ]),
    row.noderoles <= row.examples.length ? buttons(["retry"], { noderoles: row.examples }) : more(row),
  );
}

/** Of a cause with many noderoles: the retry of all that failed of its roles and deployments, which may have other causes, too. */
function more(row) {
  const selector = `failed role:${row.roles.join(",")} deployment:${row.deployments.join(",")}`;
  return [el("span", { class: "quiet acting" }, ` all failed of ${counted(row.roles.length, "role")}: `), buttons(["retry"], { selector })];
}

// -- the state of the whole --

function status(put) {
  return refusable(put, "system", async () => {
    const found = (await get("/v1/status")).answer;
    put("counts", [found.noderoles, found.nodes.all], () => counts(found));
    put("stopped", [found.daemons, found.noderoles.TODO], () => stopped(found));
    put("aside", found.aside, () => aside(found));
    put("system", [troubles(found).map(([title, rows]) => [title, rows]), found.daemons, found.images, found.rollouts, found.task_runs, found.deployments, found.nodes, found.webhook, found.quarantined], () => system(found));
    await work(put, found);
  });
}

function counts(found) {
  const chips = STATES.filter((each) => found.noderoles[each.state]).map((each) =>
    el("a", { class: "chip", href: to("matrix", "", { l: `state:${each.state.toLowerCase()}` }), "data-key": each.state }, el("b", {}, found.noderoles[each.state].toLocaleString("en")), " ", badge(each.state)),
  );
  const failed = found.noderoles.ERROR ? buttons(["retry"], { selector: "failed" }) : null;
  return el("div", { class: "chips" }, chips, el("span", { class: "quiet" }, `on ${counted(found.nodes.all, "node")}`), failed ? el("span", { class: "push" }, el("span", { class: "acting" }, "all failed: "), failed, buttons(["pauseAll"], {})) : el("span", { class: "push" }, buttons(["pauseAll"], {})));
}

function aside(found) {
  if (!found.aside.length) return null;
  const row = (each) =>
    el(
      "li",
      { "data-row": true },
      el("b", {}, each.what),
      ` by ${each.by}, `,
      age(each.since),
      each.until ? ` until ${clock(each.until)}` : "",
      each.reason ? `: ${legible(each.reason)} ` : " ",
      lifting(each.what),
    );
  return card("Holds and pauses", el("ul", { class: "plain" }, found.aside.map(row)));
}

/** The button that lifts a hold or a pause. */
function lifting(what) {
  const [kind, name] = what.split(" ", 2);
  if (kind === "node") return buttons(["release"], { nodes: [name] });
  if (kind === "deployment") return buttons(["resume"], { names: [name] });
  if (kind === "everything") return buttons(["resumeAll"], {});
  const daemons = /^(\w+)s of host (.+)$/.exec(what);
  return daemons ? buttons(["resumeDaemon"], { daemons: [`${daemons[1]}@${daemons[2]}`] }) : null;
}

async function work(put, found) {
  const running = found.noderoles.TRANSITION ? (await get("/v1/noderoles", { states: "TRANSITION" })).answer.rows : [];
  const todo = found.noderoles.TODO ?? 0;
  const waiting = todo && todo <= MOST_WAITING ? (await get("/v1/noderoles", { states: "TODO" })).answer.rows : [];
  // one with a reason of its own has been tried
  const oldest = [...waiting].sort((one, other) => !one.reason - !other.reason || one.since - other.since).slice(0, OLDEST);
  const reasons = await holding(oldest.map((each) => each.noderole));
  const shown = oldest.map((each) => ({ ...each, reason: reasons.get(each.noderole) ?? each.reason }));
  const columns = ["noderole", "since", "by", "reason"];
  put("work", [running, shown, todo], () =>
    el(
      "div",
      { class: "columns" },
      card(`Running now: ${running.length.toLocaleString("en")}`, table(running, { columns: ["noderole", "since", "by", "attempt"], empty: "Nothing runs.", most: MOST_RUNNING })),
      card(`To do: ${todo.toLocaleString("en")}`, waits(todo, shown, columns)),
    ),
  );
}

/** The noderoles to do with their reasons, and the way to all of them. */
function waits(todo, shown, columns) {
  const all = todo > shown.length ? link(`All ${counted(todo, "noderole")} to do`, to("matrix", "", { l: "state:todo" })) : null;
  if (todo && !shown.length) return el("p", {}, all);
  const order = all ? el("p", { class: "quiet" }, `Shown are ${shown.length}: those that were tried, then the oldest. `, all) : null;
  return [table(shown, { columns, empty: "Nothing waits for an annealer." }), order];
}

/** Why these noderoles do not start, as `noderole explain` says it: by name the first reason. */
async function holding(noderoles) {
  if (!noderoles.length) return new Map();
  try {
    const found = (await get("/v1/noderoles/explain", { noderoles })).answer;
    return new Map(found.map(([each]) => [each.noderole, words(each)]));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return new Map(); // one of them is gone: the next read has others
  }
}

function words({ reasons, reason }) {
  if (!reasons) return reason; // of a task that its run skips
  return reasons.length ? `${reasons[0].code}: ${reasons[0].text}` : "it may start at any moment";
}

function system(found) {
  const images = found.images;
  const lines = [...found.rollouts.under_way, ...found.rollouts.failed, ...found.rollouts.cancelled].map(withWait);
  const runs = [...found.task_runs.under_way, ...found.task_runs.failed, ...found.task_runs.stopped];
  const trouble = [...images.failing.map((each) => ({ image: each.image, reason: each.reason, since: each.since })), ...images.failed_uploads, ...images.unbuildable];
  const idle = [...found.nodes.not_alive.map((each) => ({ ...each, is: "not alive" })), ...found.nodes.not_available.map((each) => ({ ...each, is: "not available" })), ...(found.nodes.suspected ?? []).map((each) => ({ ...each, is: "suspected" }))];
  const forms = { name: (name) => link(name, to("node", name)) };
  return el(
    "div",
    { class: "columns" },
    card(link(`Nodes that cannot work: ${idle.length.toLocaleString("en")}`, to("nodes", "", { l: found.nodes.not_alive.length ? "alive:no" : "" })), table(idle, { columns: ["name", "is", "since", "reason"], forms, empty: "All nodes can work.", most: MOST_NODES })),
    card(link("Rollouts", to("rollouts")), table(lines, { columns: ["rollout", "state", "reason", "since"], empty: "None is under way or failed." })),
    card(link("Task runs", to("runs")), table(runs, { columns: ["run", "state", "reason", "started"], empty: "None is under way or failed." })),
    card(document.body.classList.contains("limited") ? "Daemons" : link("Daemons", to("daemons")), table(found.daemons, { columns: ["kind", "host", "state", "trouble", "paused"], empty: "No daemon runs." })),
    el("div", { class: "whole stack" }, card(link(`Images: ${images.all}`, to("images")), table([...images.building, ...trouble], { columns: ["image", "builder", "reason", "since"], empty: "None builds or fails." }))),
    troubles(found).map(([title, rows, columns]) => card(title, table(rows, { columns }))),
  );
}

// -- progress --

function progress(put, want, load) {
  return refusable(put, "progress", async () => {
    const all = (await get("/v1/deployments")).answer;
    const filled = all.filter((row) => row.noderoles);
    const rows = want.deployments ? filled : filled.slice(0, MOST_DEPLOYMENTS);
    const found = await Promise.all(rows.map((row) => get("/v1/noderole-states", { deployment: row.name, roles_only: true })));
    const key = [all, ...found.map((each) => each.answer)];
    put("progress", key, () => card("Deployments", rows.map((row, n) => deployment(row, found[n].answer)), wanted(want, "deployments", filled.length - rows.length, filled.length, load), empties(all)));
  });
}

/** The deployments in which no role is bound. */
function empties(all) {
  const names = all.filter((row) => !row.noderoles).map((row) => row.name);
  const rest = names.length - MOST_DEPLOYMENTS;
  return names.length ? el("p", { class: "quiet" }, `Without noderoles: ${names.slice(0, MOST_DEPLOYMENTS).join(", ")}${rest > 0 ? `, and ${rest.toLocaleString("en")} more` : ""}`) : null;
}

/** The milestones of a deployment; without any, its last role. */
function deployment(row, grid) {
  const total = Object.values(grid.totals).reduce((sum, count) => sum + count, 0);
  const steps = grid.roles.filter((each) => each.milestone);
  return el(
    "article",
    { class: "deployment", "data-row": true },
    el("h3", {}, link(row.name, to("matrix", row.name)), " ", badge(row.state), row.paused ? [" paused ", row.paused] : null, el("span", { class: "actions" }, buttons([row.paused ? "resume" : "pause"], { names: [row.name] }), row.state === "PROPOSED" ? buttons(["commitDeployment"], { name: row.name }) : null)),
    bar("all roles", grid.totals, total),
    steps.map((each) => bar(each.role, each.noderoles, Object.values(each.noderoles).reduce((sum, count) => sum + count, 0))),
  );
}

function bar(name, counts, total) {
  const done = counts.ACTIVE ?? 0;
  const failed = counts.ERROR ?? 0;
  const label = `${name}: ${done.toLocaleString("en")} of ${total.toLocaleString("en")}${failed ? `, ${failed} failed` : ""}`;
  const piece = (count, letter) => {
    const made = el("i", { class: `is-${letter}` });
    made.style.width = `${(100 * count) / Math.max(1, total)}%`;
    return made;
  };
  return el(
    "div",
    { class: "progress", role: "img", "aria-label": label },
    el("span", {}, label),
    el("div", { class: "track" }, piece(done, "A"), piece(counts.TRANSITION ?? 0, "R"), piece(failed, "E")),
  );
}
