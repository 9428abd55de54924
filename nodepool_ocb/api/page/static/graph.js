/**
 * The graph: the roles with the states of their noderoles, or the neighbourhood of one noderole. Graphviz places the boxes on the
 * server, which sends plain shapes; the elements are made here. A table has the same for a screen reader.
 */
import { get, Refused } from "./api.js";
import { deploymentField, elsewhere } from "./deployments.js";
import { append, card, el, link, show } from "./dom.js";
import { badge, counted, mood, STATES } from "./format.js";
import { follow } from "./live.js";
import { legible } from "./log.js";
import { setQuery, to } from "./router.js";
import { table } from "./table.js";

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = { path: ["d"], polygon: ["points"], text: ["x", "y", "text-anchor", "font-size"] };
const REST_MS = 2000; // between two drawings, while records change
const SHARE = 5; // so many times as long as the newest one took, at least
const MOST_STEPS = 8;

/** Show it in `place`. */
export function graph(place, { name, query }) {
  const state = {
    deployment: name,
    selector: query.get("l") ?? "",
    around: query.get("around") ?? "",
    steps: Number(query.get("steps")) || 2,
    before: null,
    drawn: -Infinity, // when, and how long it took
    took: 0,
    timer: null,
  };
  const parts = { fault: el("p", { class: "fault", role: "alert" }), about: el("p", { class: "quiet" }), picture: el("div", { class: "graph" }), rows: el("div", { class: "stack" }) };
  const load = () => loaded(state, parts);
  show(place, el("h1", { class: "aside" }, "Graph"), controls(state, load), parts.fault, parts.about, parts.picture, parts.rows);
  load();
  const end = follow(() => later(state, load));
  return () => {
    clearTimeout(state.timer);
    end();
  };
}

/** Draw again after a rest: a graph of thousands changes all the time. */
function later(state, load) {
  if (state.timer !== null) return;
  state.timer = setTimeout(() => {
    state.timer = null;
    load();
  }, Math.max(0, state.drawn + Math.max(REST_MS, SHARE * state.took) - performance.now()));
}

function controls(state, load) {
  const filter = el("input", { class: "filter", id: "filter", value: state.selector, placeholder: "role:ntp,dns rack:r1", spellcheck: "false", autocomplete: "off" });
  const around = el("input", { id: "around", value: state.around, placeholder: "ROLE@FQDN", spellcheck: "false", autocomplete: "off", size: 30 });
  const steps = el("select", { id: "steps" }, Array.from({ length: MOST_STEPS }, (_, n) => el("option", { value: n + 1, selected: n + 1 === state.steps }, n + 1)));
  const search = () => {
    Object.assign(state, { selector: filter.value.trim(), around: around.value.trim(), steps: Number(steps.value) });
    setQuery({ l: state.selector, around: state.around, steps: state.around ? String(state.steps) : "" });
    load();
  };
  for (const each of [filter, around, steps]) each.addEventListener("change", search);
  const choose = deploymentField(state.deployment, (name) => {
    location.hash = to("graph", name, { l: filter.value.trim(), around: around.value.trim(), steps: around.value.trim() ? steps.value : "" });
  });
  return el(
    "form",
    { class: "bar", onsubmit: (event) => event.preventDefault() },
    el("label", { class: "pair" }, "Deployment", choose),
    el("label", { class: "pair grow" }, "Filter", filter),
    el("label", { class: "pair" }, "Around", around),
    el("label", { class: "pair" }, "Steps", steps),
  );
}

async function loaded(state, parts) {
  const { deployment, selector, around, steps } = state;
  const began = performance.now();
  try {
    const found = (await get("/v1/graph/picture", { deployment, selector, around, steps: around ? steps : "" })).answer;
    parts.fault.textContent = "";
    state.drawn = performance.now();
    state.took = state.drawn - began;
    if (found === state.before) return;
    state.before = found;
    shown(state, parts, found);
    const others = found.boxes.length || around ? null : await elsewhere("graph", state);
    if (found === state.before) append(parts.about, others);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    state.before = null;
    parts.fault.textContent = error.message;
  }
}

function shown(state, parts, found) {
  const kind = state.around ? "noderole" : "role";
  const cut = found.cut ? `Shown: ${found.cut}.` : "";
  show(parts.about, `${counted(found.boxes.length, kind)}, ${counted(found.arrows.length, "arrow")}, from parents to children. `, cut, found.undrawn ? el("span", { class: "fault" }, ` Not drawn: ${found.undrawn}.`) : null);
  const { scrollLeft, scrollTop } = parts.picture;
  show(parts.picture, found.drawing ? picture(state, found) : null);
  Object.assign(parts.picture, { scrollLeft, scrollTop });
  show(parts.rows, card("The same as a table", rows(state, found)));
}

/** The address of a box. */
function address(state, box) {
  if (box.node !== null) return to("noderole", box.name);
  return to("matrix", state.deployment, { l: [state.selector ? `(${state.selector})` : "", `role:${box.name}`].filter(Boolean).join(" ") });
}

/** The number of noderoles of a role in each state. */
function counts(box) {
  return STATES.filter((each) => box.states[each.state]).flatMap((each) => [el("span", { class: "count" }, badge(each.state), ` ${box.states[each.state].toLocaleString("en")}`), " "]);
}

// -- the drawing --

function picture(state, found) {
  const { width, height, shift, groups } = found.drawing;
  const made = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Drawing of the graph; each box is a link" });
  const moved = element("g", { transform: `translate(${Number(shift[0])} ${Number(shift[1])})` });
  moved.append(...groups.map((group) => drawn(state, found, group)));
  made.append(moved);
  return made;
}

function drawn(state, found, group) {
  const box = group.box === null ? null : found.boxes[group.box];
  const shapes = group.shapes.filter((each) => SHAPES[each.tag]).map(shape);
  const made = box ? element("a", { href: address(state, box), class: `box ${mood(box.state)}${box.name === state.around ? " centre" : ""}` }) : element("g", { class: "arrow", "aria-hidden": "true" });
  if (box) made.dataset.key = `box ${box.name}`;
  made.append(...shapes.flatMap((each) => [each, " "])); // its texts are its name for a screen reader
  return made;
}

function shape(each) {
  const given = SHAPES[each.tag].filter((name) => name in each.attributes).map((name) => [name, each.attributes[name]]);
  const made = element(each.tag, Object.fromEntries(given));
  if (each.tag === "text") made.textContent = legible(each.text ?? "");
  return made;
}

function element(tag, properties) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, String(value));
  return made;
}

// -- the table --

function rows(state, found) {
  const parents = found.boxes.map(() => []);
  for (const [parent, child] of found.arrows) parents[child].push(found.boxes[parent].name);
  const columns = [state.around ? "noderole" : "role", "states", "after"];
  const lines = found.boxes.map((box, n) => ({ [columns[0]]: link(box.name, address(state, box)), states: box.node === null ? counts(box) : badge(box.state), after: parents[n].join(", ") }));
  return table(lines, { columns, empty: "No noderole matches." });
}
