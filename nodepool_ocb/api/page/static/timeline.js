/**
 * The timeline of a deployment: the nodes that changed last are lanes, the runs of their noderoles are bars, and waiting is hatched.
 * The range of times stands in the address: `last=3600`, or `from` and `to` in seconds since 1970.
 */
import { get, Refused } from "./api.js";
import { deploymentField, elsewhere, meant } from "./deployments.js";
import { announce, append, el, link, show } from "./dom.js";
import { badge, clock, counted, parts as partsOf, seconds } from "./format.js";
import { typing } from "./keys.js";
import { follow } from "./live.js";
import { legible } from "./log.js";
import { route, setQuery, to } from "./router.js";
import { colours, onceInAFrame, watchLooks } from "./surface.js";
import { draw, height, layout, under } from "./timecanvas.js";

const REST_MS = 2000; // between two reads, while records change
const SHARE = 5; // so many times as long as the newest one took, at least
const RANGES = [300, 900, 3600, 14400, 86400, 604800];
const LEAST_SECONDS = 5;
const MOST_ROWS = 400; // of the table for screen readers
/** The letter of an outcome, for its colour: of a state, since its bar tells the same. */
const OUTCOMES = { succeeded: "A", "in-sync": "A", failed: "E", unreachable: "E", died: "E", unknown: "E", drifted: "T", abandoned: "P" };

/** Show it in `place`. */
export function timeline(place, { name, query }) {
  const state = {
    deployment: name,
    selector: query.get("l") ?? "",
    range: ranged(query),
    found: null,
    lanes: [],
    cursor: { lane: 0, bar: 0 },
    palette: colours(),
    last: -Infinity,
    took: 0,
    timer: null,
  };
  const parts = frame(state);
  const paint = onceInAFrame(() => painted(state, parts));
  const load = () => loaded(state, parts).then(paint);
  show(place, el("h1", { class: "aside" }, "Timeline"), parts.bar, parts.fault, parts.counts, parts.about, parts.scroller, parts.table);
  bind(state, parts, paint, load);
  load();
  const ends = [watchLooks(parts.scroller, state, paint), follow(() => later(state, load))];
  const tick = setInterval(paint, 1000); // bars of the present grow
  const keys = (event) => pressed(event, state, parts, paint);
  document.addEventListener("keydown", keys);
  return () => {
    clearTimeout(state.timer);
    clearInterval(tick);
    document.removeEventListener("keydown", keys);
    for (const end of ends) end();
  };
}

function ranged(query) {
  const [from, until] = [Number(query.get("from")), Number(query.get("to"))];
  if (from > 0 && until > from) return { from, to: until };
  const last = Number(query.get("last"));
  return { last: last > 0 ? last : null }; // null: all that is known
}

function frame(state) {
  const choose = deploymentField(state.deployment, (name) => {
    location.hash = to("timeline", name, Object.fromEntries(route().query));
  });
  const filter = el("input", { class: "filter", id: "filter", value: state.selector, placeholder: "role:ntp rack:r1", spellcheck: "false", autocomplete: "off" });
  const last = el("select", { id: "last" }, el("option", { value: "" }, "all that is kept"), RANGES.map((each) => el("option", { value: each, selected: each === state.range.last }, `the last ${seconds(each)}`)), el("option", { value: "own", hidden: true }, "as moved"));
  const canvas = el("canvas", { "aria-hidden": "true" });
  const spacer = el("div", { class: "spacer" });
  const scroller = el("div", { class: "grid times", tabindex: 0, role: "group", "aria-label": "Timeline of nodes; the arrow keys move, Enter opens, plus and minus change the range" }, canvas, spacer);
  const bar = el("form", { class: "bar", onsubmit: (event) => event.preventDefault() }, el("label", { class: "pair" }, "Deployment", choose), el("label", { class: "pair grow" }, "Filter", filter), el("label", { class: "pair" }, "Time", last));
  return { filter, last, canvas, spacer, scroller, bar, fault: el("p", { class: "fault", role: "alert" }), counts: el("p", { class: "counts" }), about: el("p", { class: "about" }), table: el("div", { class: "aside" }) };
}

function later(state, load) {
  if (state.timer !== null) return;
  state.timer = setTimeout(() => {
    state.timer = null;
    load();
  }, Math.max(0, state.last + Math.max(REST_MS, SHARE * state.took) - performance.now()));
}

async function loaded(state, parts) {
  const began = performance.now();
  try {
    const found = (await get("/v1/noderole-runs", { selector: meant(state) })).answer;
    state.last = performance.now();
    state.took = state.last - began;
    parts.fault.textContent = "";
    taken(state, parts, found);
    const others = found.nodes.length ? null : await elsewhere("timeline", state);
    if (found === state.found) append(parts.counts, others);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    parts.fault.textContent = error.message;
  }
}

function taken(state, parts, found) {
  Object.assign(state, { found, behind: Date.now() / 1000 - found.now, lanes: lanesOf(found) });
  state.cursor.lane = Math.max(0, Math.min(state.lanes.length - 1, state.cursor.lane));
  const left = found.nodes_left_out ? ` Shown are the ${counted(found.nodes.length, "node")} that changed last; ${found.nodes_left_out.toLocaleString("en")} are left out: a filter shows them.` : "";
  show(parts.counts, `${counted(found.nodes.length, "node")}, ${counted(found.runs.length, "run")} (of each noderole the newest ${found.runs_each}), ${counted(found.present.length, "noderole")} running or waiting.${left}`, el("span", { class: "quiet" }, " A filled bar is a run, with its letter and colour as in the matrix; a hatched one is a wait."));
  tabled(state, parts);
  told(state, parts);
}

/** The lanes with their bars by time; lanes without any are last. */
function lanesOf(found) {
  const bars = new Map(found.nodes.map((node) => [node, []]));
  const put = (noderole, bar) => {
    const { role, node } = partsOf(noderole);
    bars.get(node)?.push({ noderole, role, ...bar });
  };
  for (const run of found.runs) {
    put(run.noderole, { from: run.started, to: run.ended, letter: OUTCOMES[run.outcome] ?? "P", run: run.run, text: run.outcome });
    if (run.queued && run.queued < run.started) put(run.noderole, { from: run.queued, to: run.started, letter: "T", waits: true, run: run.run, text: "waited for an annealer" });
  }
  for (const each of found.present) {
    const running = each.state === "TRANSITION";
    put(each.noderole, { from: each.since, to: null, letter: running ? "R" : each.state === "TODO" ? "T" : "B", waits: !running, text: running ? "runs" : `${each.state}${each.reason ? `: ${each.reason}` : ""}` });
  }
  const lanes = found.nodes.map((node) => ({ node, bars: bars.get(node).sort((one, other) => one.from - other.from) }));
  return lanes.sort((one, other) => !one.bars.length - !other.bars.length);
}

function now(state) {
  return Date.now() / 1000 - (state.behind ?? 0);
}

/** The range that is shown; of all that is kept, from the first bar on. */
function shownRange(state) {
  const { range } = state;
  if (range.from) return range;
  const present = now(state);
  if (range.last) return { from: present - range.last, to: present };
  const first = state.lanes.reduce((least, lane) => Math.min(least, lane.bars[0]?.from ?? least), present - 60);
  return { from: first - (present - first) * 0.02, to: present };
}

function painted(state, parts) {
  const { scroller, canvas, spacer } = parts;
  if (!scroller.isConnected) return;
  const sizes = layout(scroller.clientWidth, shownRange(state));
  const whole = height(sizes, state.lanes.length);
  scroller.style.height = `${whole + scroller.offsetHeight - scroller.clientHeight}px`; // the style sheet has the largest
  spacer.style.height = `${whole}px`;
  spacer.style.width = "1px";
  canvas.style.width = `${scroller.clientWidth}px`;
  canvas.style.height = `${scroller.clientHeight}px`;
  state.sizes = sizes;
  const present = now(state);
  const lanes = state.lanes.map((lane) => ({ node: lane.node, bars: lane.bars.map((bar) => (bar.to === null ? { ...bar, to: present } : bar)) }));
  draw(canvas, sizes, scroller.scrollTop, lanes, state.cursor, state.palette);
  if (state.found !== null) scroller.dataset.painted = state.lanes.length;
}

/** The bars as a table, for screen readers. */
function tabled(state, parts) {
  const rows = state.lanes.flatMap((lane) => lane.bars);
  const lines = rows.slice(-MOST_ROWS).map((bar) => el("tr", {}, el("th", { scope: "row" }, bar.noderole), el("td", {}, legible(bar.text)), el("td", {}, clock(bar.from)), el("td", {}, bar.to === null ? "now" : clock(bar.to))));
  const head = ["Noderole", "What", "From", "To"].map((each) => el("th", { scope: "col" }, each));
  show(parts.table, el("table", {}, el("caption", {}, `${Math.min(rows.length, MOST_ROWS)} of ${rows.length} runs and waits`), el("thead", {}, el("tr", {}, head)), el("tbody", {}, lines)));
}

function told(state, parts) {
  const lane = state.lanes[state.cursor.lane];
  const bar = lane?.bars[state.cursor.bar];
  if (!bar) return show(parts.about, lane ? [link(lane.node, to("node", lane.node)), ": no run is kept"] : "");
  const long = seconds((bar.to ?? now(state)) - bar.from);
  show(parts.about, link(bar.noderole, to("noderole", bar.noderole, { run: bar.run ?? "" })), " ", bar.waits ? el("span", { class: "badge" }, "waits") : badge(bar.text), ` ${bar.waits ? `${legible(bar.text)}, ` : ""}${long}, from ${clock(bar.from)}${bar.to === null ? " on" : ` to ${clock(bar.to)}`}`);
}

// -- moving --

function bind(state, parts, paint, load) {
  parts.filter.addEventListener("change", () => {
    state.selector = parts.filter.value.trim();
    addressed(state);
    load();
  });
  parts.last.addEventListener("change", () => ranging(state, parts, paint, { last: Number(parts.last.value) || null }));
  parts.scroller.addEventListener("scroll", paint, { passive: true });
  parts.canvas.addEventListener("click", (event) => clicked(event, state, parts, paint));
}

function addressed(state) {
  const { from, to: until, last } = state.range;
  setQuery({ l: state.selector, last: last ? String(last) : "", from: from ? String(Math.round(from)) : "", to: until ? String(Math.round(until)) : "" });
}

function ranging(state, parts, paint, range) {
  state.range = range;
  parts.last.value = range.from ? "own" : (range.last ?? "");
  addressed(state);
  paint();
}

/** Look closer (by < 1) or from farther away, around the middle; `shift`: so many widths to the right. */
function zoomed(state, parts, paint, by, shift = 0) {
  const { from, to: until } = shownRange(state);
  const width = Math.max(LEAST_SECONDS, (until - from) * by);
  const middle = (from + until) / 2 + shift * width;
  ranging(state, parts, paint, { from: Math.round(middle - width / 2), to: Math.round(middle + width / 2) });
}

function clicked(event, state, parts, paint) {
  const place = under(state.sizes, event.offsetX, event.offsetY, parts.scroller.scrollTop);
  const lane = state.lanes[place.lane];
  if (!lane) return;
  if (event.offsetX < state.sizes.names) {
    location.hash = to("node", lane.node);
    return;
  }
  const near = 4 / state.sizes.scale;
  const hits = lane.bars.map((bar, n) => ({ bar, n })).filter(({ bar }) => bar.from - near <= place.at && place.at <= (bar.to ?? now(state)) + near);
  const hit = hits.find(({ bar }) => !bar.waits) ?? hits[0];
  const again = hit && state.cursor.lane === place.lane && state.cursor.bar === hit.n;
  state.cursor = { lane: place.lane, bar: hit?.n ?? 0 };
  if (again) location.hash = to("noderole", hit.bar.noderole, { run: hit.bar.run ?? "" });
  told(state, parts);
  paint();
}

const MOVES = { j: [1, 0], ArrowDown: [1, 0], k: [-1, 0], ArrowUp: [-1, 0], l: [0, 1], ArrowRight: [0, 1], h: [0, -1], ArrowLeft: [0, -1] };
const ZOOMS = { "+": [0.5, 0], "=": [0.5, 0], "-": [2, 0], "[": [1, -0.5], "]": [1, 0.5] };

function pressed(event, state, parts, paint) {
  if (typing(event) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target instanceof HTMLElement && event.target.closest("a, button") && !MOVES[event.key]) return;
  const bar = state.lanes[state.cursor.lane]?.bars[state.cursor.bar];
  if (MOVES[event.key]) moved(state, parts, ...MOVES[event.key]);
  else if (ZOOMS[event.key]) zoomed(state, parts, paint, ...ZOOMS[event.key]);
  else if (event.key === "Enter" && bar) location.hash = to("noderole", bar.noderole, { run: bar.run ?? "" });
  else return;
  event.preventDefault();
  paint();
}

function moved(state, parts, down, right) {
  const { cursor, lanes } = state;
  cursor.lane = Math.max(0, Math.min(lanes.length - 1, cursor.lane + down));
  const bars = lanes[cursor.lane]?.bars ?? [];
  cursor.bar = down ? Math.max(0, bars.length - 1) : Math.max(0, Math.min(bars.length - 1, cursor.bar + right));
  const top = cursor.lane * state.sizes.lane;
  const { scroller } = parts;
  scroller.scrollTop = Math.min(top, Math.max(scroller.scrollTop, top + state.sizes.lane - (scroller.clientHeight - state.sizes.head)));
  told(state, parts);
  announce(parts.about.textContent);
}
