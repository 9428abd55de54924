/** The matrix of a deployment: nodes and roles, with a filter in the language of `-l`, keys, and a choice for actions. */
import { buttons } from "./actions.js";
import { get, Refused } from "./api.js";
import { cellAt, draw, extent, layout } from "./canvas.js";
import { Choice, showChoice } from "./choice.js";
import { deploymentField, elsewhere, meant } from "./deployments.js";
import { announce, append, el, link, show } from "./dom.js";
import { badge, BY_LETTER, counted, STATES } from "./format.js";
import { typing } from "./keys.js";
import { follow } from "./live.js";
import { setQuery, to } from "./router.js";
import { colours, onceInAFrame, watchLooks } from "./surface.js";

const TABLE_MS = 250; // after the last scroll, until the table for screen readers is renewed
const MOVES = { j: [1, 0], ArrowDown: [1, 0], k: [-1, 0], ArrowUp: [-1, 0], l: [0, 1], ArrowRight: [0, 1], h: [0, -1], ArrowLeft: [0, -1] };

/** Show it in `place`. */
export function matrix(place, { name, query }) {
  const state = {
    deployment: name,
    selector: query.get("l") ?? "",
    worst: query.get("order") === "worst",
    cursor: { row: 0, column: 0 },
    data: { roles: [], rows: [] },
    document: null,
    racks: new Map(),
    palette: colours(),
  };
  const parts = frame(state);
  state.choice = new Choice(() => {
    showChoice(parts.choice, state.choice, state.racks, meant(state));
    paint();
  });
  const paint = onceInAFrame(() => painted(state, parts));
  const load = () => loaded(state, parts).then(paint);
  show(place, parts.bar, parts.counts, parts.fault, parts.about, parts.choice, parts.scroller);
  bind(state, parts, paint, load);
  const keys = (event) => pressed(event, state, parts, paint);
  document.addEventListener("keydown", keys);
  load();
  const ends = [watchLooks(parts.scroller, state, paint), follow(load)];
  return () => {
    for (const end of ends) end();
    document.removeEventListener("keydown", keys);
  };
}

function frame(state) {
  const filter = el("input", { class: "filter", id: "filter", value: state.selector, placeholder: "state:error role:ntp rack:r1", spellcheck: "false", autocomplete: "off" });
  const worst = el("input", { type: "checkbox", id: "worst", checked: state.worst });
  const canvas = el("canvas", { "aria-hidden": "true" });
  const spacer = el("div", { class: "spacer" });
  const table = el("div", { class: "aside" });
  const scroller = el("div", { class: "grid", tabindex: 0, role: "group", "aria-label": "Matrix of nodes and roles; the arrow keys move, Enter opens" }, canvas, spacer);
  const choose = deploymentField(state.deployment, (name) => {
    location.hash = to("matrix", name, { l: state.selector.trim(), order: state.worst ? "worst" : "" });
  });
  return {
    filter,
    worst,
    canvas,
    spacer,
    scroller,
    table,
    bar: el(
      "form",
      { class: "bar", onsubmit: (event) => event.preventDefault() },
      el("label", { class: "pair" }, "Deployment", choose),
      el("label", { class: "pair grow" }, "Filter", filter),
      el("label", { class: "check" }, worst, "worst first"),
    ),
    counts: el("p", { class: "counts" }),
    fault: el("p", { class: "fault", role: "alert" }),
    about: el("p", { class: "about" }),
    choice: el("div", { class: "choice", role: "region", "aria-label": "Choice" }),
    timer: null,
  };
}

async function loaded(state, parts) {
  try {
    const found = (await get("/v1/noderole-states", { deployment: state.deployment, selector: state.selector.trim() })).answer;
    parts.fault.textContent = "";
    if (found === state.document) return;
    taken(state, parts, found);
    const others = found.nodes.length ? null : await elsewhere("matrix", state);
    if (found === state.document) append(parts.counts, others);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    parts.fault.textContent = error.message;
  }
}

/** Take a document, and keep the cursor at its noderole. */
function taken(state, parts, found) {
  const node = state.data.rows[state.cursor.row]?.node;
  const role = state.data.roles[state.cursor.column]?.role;
  const rows = found.nodes.map((name, n) => ({ node: name, rack: found.racks[n], marks: found.marks[n], states: found.states[n] }));
  if (state.worst) {
    const ranks = new Map(rows.map((row) => [row, STATES.findIndex(({ letter }) => row.states.includes(letter))]));
    rows.sort((one, other) => ranks.get(one) - ranks.get(other));
  }
  Object.assign(state, { document: found, data: { roles: found.roles, rows }, racks: new Map(rows.map((row) => [row.node, row.rack])) });
  state.cursor.row = Math.max(0, rows.findIndex((row) => row.node === node));
  const column = found.roles.findIndex((each) => each.role === role);
  const bound = [...(rows[state.cursor.row]?.states ?? "")].findIndex((letter) => letter !== "."); // the first, at first
  state.cursor.column = Math.max(0, column >= 0 ? column : bound);
  state.choice.keep(new Set(names(state)));
  showChoice(parts.choice, state.choice, state.racks, meant(state));
  const counts = STATES.filter((each) => found.totals[each.state]).map((each) => [el("span", { class: "count" }, badge(each.state), ` ${found.totals[each.state].toLocaleString("en")}`), " "]);
  show(parts.counts, `${counted(rows.length, "node")} × ${counted(found.roles.length, "role")}: `, counts.length ? counts : `no noderole${state.selector.trim() ? " matches" : ""}.`);
  told(state, parts);
}

/** All noderoles that are shown. */
function names(state) {
  return state.data.rows.flatMap((row) => state.data.roles.filter((_, n) => row.states[n] !== ".").map(({ role }) => `${role}@${row.node}`));
}

function painted(state, parts) {
  const { scroller, canvas, spacer } = parts;
  const sizes = layout(scroller.clientWidth, state.data.roles.length);
  const whole = extent(sizes, state.data.rows.length);
  scroller.style.height = `${whole.height + scroller.offsetHeight - scroller.clientHeight}px`; // the style sheet has the largest
  spacer.style.height = `${whole.height}px`;
  spacer.style.width = `${whole.width > scroller.clientWidth ? whole.width : 1}px`;
  canvas.style.width = `${scroller.clientWidth}px`;
  canvas.style.height = `${scroller.clientHeight}px`;
  const scroll = { top: scroller.scrollTop, left: scroller.scrollLeft };
  state.sizes = sizes;
  const range = draw(canvas, sizes, scroll, state.data, state.cursor, (node, role) => state.choice.has(node, role), state.palette);
  if (state.document !== null) scroller.dataset.painted = state.data.rows.length;
  clearTimeout(parts.timer);
  parts.timer = setTimeout(() => tabled(state, parts, range), TABLE_MS);
}

/** The visible rows as a table, for screen readers. */
function tabled(state, parts, range) {
  if (!parts.scroller.isConnected) return;
  if (!parts.table.isConnected) parts.scroller.after(parts.table);
  const { roles, rows } = state.data;
  const shown = rows.slice(range.first, range.last);
  const head = el("tr", {}, el("th", { scope: "col" }, "Node"), roles.map(({ role }) => el("th", { scope: "col" }, role)));
  const lines = shown.map((row) =>
    el("tr", {}, el("th", { scope: "row" }, row.node), [...row.states].map((letter) => el("td", {}, BY_LETTER.get(letter)?.state ?? "not bound"))),
  );
  const caption = rows.length ? `Rows ${range.first + 1} to ${range.last} of ${rows.length}` : "No rows";
  show(parts.table, el("table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, lines)));
}

/** The noderole at the cursor; null where there is none. */
function at(state, { row, column } = state.cursor) {
  const line = state.data.rows[row];
  const role = state.data.roles[column]?.role;
  const letter = line?.states[column];
  return line && role && letter !== "." ? { noderole: `${role}@${line.node}`, node: line.node, state: BY_LETTER.get(letter).state, rack: line.rack } : null;
}

const MARKS = { h: "held", d: "not alive", u: "not available" };

function told(state, parts) {
  const line = state.data.rows[state.cursor.row];
  if (!line) return show(parts.about);
  const found = at(state);
  const marks = [...line.marks].map((letter) => MARKS[letter]);
  show(
    parts.about,
    found ? [link(found.noderole, to("noderole", found.noderole)), " ", badge(found.state)] : ["not bound at ", link(line.node, to("node", line.node))],
    line.rack ? ` rack ${line.rack}` : "",
    marks.length ? `, node is ${marks.join(", ")}` : "",
    found?.state === "ERROR" ? [" ", buttons(["retry"], { noderoles: [found.noderole] })] : null,
  );
}

function bind(state, parts, paint, load) {
  const search = () => {
    setQuery({ l: state.selector.trim(), order: state.worst ? "worst" : "" });
    state.document = null;
    parts.scroller.scrollTop = 0;
    load();
  };
  parts.filter.addEventListener("change", () => {
    state.selector = parts.filter.value;
    search();
  });
  parts.worst.addEventListener("change", () => {
    state.worst = parts.worst.checked;
    search();
  });
  parts.scroller.addEventListener("scroll", paint, { passive: true });
  parts.canvas.addEventListener("click", (event) => clicked(event, state, parts, paint));
}

function clicked(event, state, parts, paint) {
  const { scroller } = parts;
  const cell = cellAt(state.sizes, event.offsetX, event.offsetY, { top: scroller.scrollTop, left: scroller.scrollLeft });
  const line = state.data.rows[cell.row];
  const role = state.data.roles[cell.column]?.role;
  if (cell.row < 0 && role) {
    state.choice.toggle(names(state).filter((name) => name.startsWith(`${role}@`)));
  } else if (line && cell.column < 0) {
    if (event.shiftKey || event.ctrlKey) state.choice.toggle(names(state).filter((name) => name.endsWith(`@${line.node}`)));
    else location.hash = to("node", line.node);
  } else if (line && role) {
    state.cursor = cell;
    const found = at(state);
    if (found && (event.shiftKey || event.ctrlKey)) state.choice.toggle([found.noderole]);
    else if (found) location.hash = to("noderole", found.noderole);
    told(state, parts);
    paint();
  }
}

function pressed(event, state, parts, paint) {
  if (typing(event) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target instanceof HTMLElement && event.target.closest("a, button, summary") && !MOVES[event.key]) return;
  const { rows, roles } = state.data;
  if (!rows.length) return;
  if (MOVES[event.key]) {
    const [down, right] = MOVES[event.key];
    state.cursor.row = Math.max(0, Math.min(rows.length - 1, state.cursor.row + down));
    state.cursor.column = Math.max(0, Math.min(roles.length - 1, state.cursor.column + right));
    into(state, parts);
    told(state, parts);
    const found = at(state);
    announce(found ? `${found.noderole}: ${found.state}` : `${rows[state.cursor.row]?.node ?? ""}: not bound`);
  } else if (event.key === "Enter") {
    const found = at(state);
    if (found) location.hash = to("noderole", found.noderole);
  } else if (event.key === "x") {
    const found = at(state);
    if (found) state.choice.toggle([found.noderole]);
  } else if (event.key === "X") {
    state.choice.toggleAll(names(state));
  } else return;
  event.preventDefault();
  paint();
}

/** Scroll until the cursor is visible. */
function into(state, { scroller }) {
  if (!state.sizes) return;
  const { row, head, cell, names: left } = state.sizes;
  const top = state.cursor.row * row;
  scroller.scrollTop = Math.min(top, Math.max(scroller.scrollTop, top + row - (scroller.clientHeight - head)));
  const side = state.cursor.column * cell;
  scroller.scrollLeft = Math.min(side, Math.max(scroller.scrollLeft, side + cell - (scroller.clientWidth - left)));
}
