/** One noderole: why it is in its state, the output of its newest run, attributes with their origin, neighbours and runs. */
import { buttons } from "./actions.js";
import { get, Refused } from "./api.js";
import { card, el, link, show } from "./dom.js";
import { age, badge, parts } from "./format.js";
import { follow } from "./live.js";
import { liveLog } from "./livelog.js";
import { legible, output } from "./log.js";
import { route, setQuery, to } from "./router.js";
import { facts, table } from "./table.js";

const LOG_SECONDS = 2; // between two reads of the output of a run that goes on
const BY_STATE = {
  ERROR: ["retry", "refresh", "propose", "redeploy"],
  ACTIVE: ["refresh", "propose", "redeploy"],
  PROPOSED: ["commit"],
  TRANSITION: ["cancel"],
  TODO: ["propose"],
  BLOCKED: ["propose"],
};

/** Show it in `place`. */
export function noderole(place, { name }) {
  const places = Object.fromEntries(["head", "why", "log", "rest"].map((key) => [key, el("div", { class: "stack" })]));
  show(place, places.head, places.why, places.log, places.rest);
  const state = { name, place: places, seen: {}, log: null, run: route().query.get("run") };
  const load = () => loaded(state);
  load();
  const end = follow(load, LOG_SECONDS);
  return () => {
    state.log?.end();
    end();
  };
}

async function loaded(state) {
  const base = `/v1/noderoles/${encodeURIComponent(state.name)}`;
  const { place } = state;
  let found = null;
  const read = async () => {
    found = await get(base);
    return found;
  };
  await part(state, "head", place.head, read, head);
  if (found === null) return;
  const shown = found.answer;
  const both = async () => ({ answer: { shown, attributes: (await get(`${base}/attributes`)).answer } });
  const log = async () => ({ answer: chosen(shown, state.run) });
  await Promise.all([
    part(state, "why", place.why, () => get(`${base}/explain`), ([[why]]) => explained(why)),
    part(state, "log", place.log, log, (each) => logged(state, each)),
    part(state, "rest", place.rest, both, (each) => below(state, each)),
  ]);
}

/** A part of the view, drawn again after a change of its answer. */
async function part(state, key, place, read, content, refused = loudly) {
  try {
    const { answer } = await read();
    const text = JSON.stringify(answer);
    if (state.seen[key] === text) return;
    state.seen[key] = text;
    show(place, content(answer));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (state.seen[key] === error.message) return;
    state.seen[key] = error.message;
    show(place, refused(error));
  }
}

function loudly(error) {
  return el("p", { class: "fault", role: "alert" }, error.message);
}

/** The run with the output that is shown: the chosen one, the one that goes on, or the newest. */
function chosen(shown, wanted) {
  const running = shown.state === "TRANSITION" ? { run: shown.run } : null;
  const name = { noderole: shown.noderole };
  const found = wanted ? shown.runs.find((each) => each.run === wanted) : (running ?? shown.runs.at(-1));
  return found ? { ...name, ...found } : null;
}

function head(found) {
  const { role, node } = parts(found.noderole);
  return [
    el("div", { class: "bar" }, el("h1", {}, `${role}@`, link(node, to("node", node))), badge(found.state), buttons(BY_STATE[found.state] ?? [], { noderoles: [found.noderole] }), el("span", { class: "quiet acting" }, "its node:"), buttons(["hold"], { nodes: [node] })),
    found.reason ? el("p", { class: `reason ${found.state === "ERROR" ? "bad" : ""}` }, legible(found.reason)) : null,
    facts([
      ["Deployment", link(found.deployment, to("matrix", found.deployment, { l: node }))],
      ["Since", age(found.since)],
      ["Generation", found.generation],
      ["Attempt", found.attempt || null],
      ["Run", found.run],
      ["Annealer", found.by],
      ["Task run", found.task_run ? link(found.task_run, to("run", `${found.deployment}/${found.task_run}`)) : null],
    ]),
  ];
}

function explained(why) {
  const reasons = why.reasons.map((each) =>
    el(
      "li",
      {},
      el("b", {}, each.code),
      " ",
      legible(each.text),
      each.since ? [" (", age(each.since), ")"] : null,
      each.advice ? el("div", { class: "advice" }, el("code", {}, each.advice)) : null,
    ),
  );
  return card("Why", reasons.length ? el("ol", { class: "reasons" }, reasons) : el("p", { class: "quiet" }, `It is ${why.state}; nothing keeps it from its next state.`));
}

/** The output of a run: of one that goes on as it comes, of another its recorded end, or all of it on demand. */
function logged(state, found) {
  if (state.log !== null && state.log.run !== found?.run) {
    state.log.end();
    state.log = null;
  }
  if (found === null) return card("Output", el("p", { class: "quiet" }, "It has no run yet."));
  const title = `Output of run ${found.run}`;
  const code = found.exit_code === null || found.exit_code === undefined ? "" : `, exit code ${found.exit_code}`;
  const ended = found.outcome ? el("p", { class: "quiet" }, `${found.outcome}${code}, `, age(found.ended), " ago") : null;
  const read = () => {
    const place = el("div");
    const end = liveLog(place, `/v1/noderoles/${encodeURIComponent(found.noderole)}/runs/${encodeURIComponent(found.run)}/log`, found.tail ?? "");
    state.log = { run: found.run, place, end };
    return place;
  };
  if (state.log !== null || !found.outcome) return card(title, ended, state.log?.place ?? read());
  const box = el("div", {}, found.tail ? output(found.tail) : null);
  const all = () => show(box, read());
  return card(title, ended, el("p", { class: "quiet" }, found.tail ? "This is its recorded end. " : "No output was recorded. ", found.log ? el("button", { type: "button", "data-key": "whole", onclick: all }, "Read the log at its annealer") : null), box);
}

function below(state, { shown, attributes }) {
  const values = (attributes.values ?? []).map((each) => ({ attribute: each.place, value: JSON.stringify(each.value), layer: each.layer, hides: each.hides.map((other) => el("div", {}, `${JSON.stringify(other.value)} of ${other.layer}`)) }));
  const columns = ["attribute", "value", "layer", ...(values.some((each) => each.hides.length) ? ["hides"] : [])];
  const runs = [...shown.runs].reverse();
  const choose = (run) => {
    state.run = run;
    setQuery({ run });
    loaded(state);
  };
  return [
    card("Parents and children", el("p", { class: "links" }, link("Graph of its neighbourhood", to("graph", "", { around: shown.noderole })), " ", link("Timeline of its node", to("timeline", shown.deployment, { l: parts(shown.noderole).node }))), neighbours("Parents", shown.parents), neighbours("Children", shown.children)),
    card("Attributes", table(values, { columns, empty: "It has none." })),
    card(
      "Runs",
      table(
        runs.map((run) => ({ run: run.run, outcome: run.outcome, exit_code: run.exit_code, started: run.started, ended: run.ended, annealer: run.annealer })),
        { empty: "It has not run yet.", extra: (row) => el("button", { type: "button", "data-key": `log ${row.run}`, onclick: () => choose(row.run) }, "Output") },
      ),
    ),
    el("p", {}, link("History of this noderole", to("history", "", { l: shown.noderole }))),
  ];
}

function neighbours(title, names) {
  return el("p", {}, el("b", {}, `${title}: `), names.length ? names.map((name, n) => [n ? ", " : "", name.includes("@") ? link(name, to("noderole", name)) : name]) : "none");
}
