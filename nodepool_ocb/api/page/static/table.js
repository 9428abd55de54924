/** Rows of the API as a table: the columns come from the rows, and a few names of keys have a form of their own. */
import { el, link } from "./dom.js";
import { age, badge, clock } from "./format.js";
import { legible } from "./log.js";
import { to } from "./router.js";

const LONGEST = 300; // characters of a value
const MOST_ROWS = 500; // that are shown at first
const shownAll = new Set(); // tables of which a person wanted all rows: view and columns

/** The form of a value, by its key. */
const FORMS = {
  noderole: (text) => link(text, to("noderole", text)),
  node: (text) => link(text, to("node", text)),
  deployment: (text) => link(text, to("matrix", text)),
  rollout: (text) => link(text, to("rollout", text)),
  run: (text) => (text.includes("/") ? link(text, to("run", text)) : text), // DEPLOYMENT/ID is a run of tasks
  task_run: (text) => link(text, to("run", text)),
  image: (text) => link(text, to("image", text)),
  state: (state) => badge(state),
  since: age,
  seen: ago,
  started: ago,
  ended: ago,
  created: ago,
  used: ago,
  state_time: ago,
  at: (at) => clock(at),
  until: (at) => clock(at),
};

/** A value as people read it; elements stay as they are. */
export function value(key, given, forms = {}) {
  if (given instanceof Node || (Array.isArray(given) && given.some((each) => each instanceof Node))) return given;
  if (given === null || given === undefined || given === "") return nothing();
  const form = forms[key] ?? FORMS[key];
  if (form && Array.isArray(given)) return given.length ? given.map((each, n) => [n ? ", " : "", form(each)]) : nothing();
  if (form && typeof given !== "object") return form(given);
  const text = cut(legible(words(given)));
  return text === "" ? nothing() : text;
}

/** The time since a moment, as a sentence has it. */
export function ago(at) {
  return at ? [age(at), " ago"] : nothing();
}

/** The text; of a long one the beginning, up to a space if there is one near, and a mark. */
function cut(text) {
  if (text.length <= LONGEST) return text;
  const end = text.lastIndexOf(" ", LONGEST);
  return `${text.slice(0, end > LONGEST / 2 ? end : LONGEST)} …`;
}

function nothing() {
  return el("span", { class: "quiet", "data-nothing": "1" }, "–");
}

function words(given) {
  if (typeof given === "boolean") return given ? "yes" : "no";
  if (Array.isArray(given)) return given.map(words).join(", ");
  if (given !== null && typeof given === "object") {
    return Object.entries(given)
      .filter(([, each]) => each !== null)
      .map(([key, each]) => `${key}: ${words(each)}`)
      .join(", ");
  }
  return String(given);
}

/**
 * A table. `columns`: the keys to show, else all of the first row; `extra(row)`: what stands at the end of a row, such as
 * buttons; `forms`: forms of values, by key; `most`: rows that are shown until a person wants all.
 */
export function table(rows, { columns, extra, forms, empty = "There is none.", most = MOST_ROWS } = {}) {
  if (!rows.length) return el("p", { class: "quiet" }, empty);
  const keys = columns ?? Object.keys(rows[0]);
  const head = keys.map((key) => el("th", { scope: "col" }, key.replaceAll("_", " ")));
  const name = `${location.hash} ${keys.join()}`;
  const shown = shownAll.has(name) ? rows : rows.slice(0, most);
  const body = el("tbody", {}, shown.map((row) => line(row, keys, extra, forms)));
  const rest = rows.slice(shown.length);
  const more = el("button", { type: "button", "data-key": `all ${name}` }, `Show all ${rows.length.toLocaleString("en")}`);
  more.addEventListener("click", () => {
    shownAll.add(name);
    body.append(...rest.map((row) => line(row, keys, extra, forms)));
    more.remove();
  });
  return el(
    "div",
    { class: "wide", tabindex: 0, role: "region", "aria-label": "Table" },
    el("table", {}, el("thead", {}, el("tr", {}, head, extra ? el("th", { scope: "col" }, el("span", { class: "aside" }, "Actions")) : null)), body),
    rest.length ? more : null,
  );
}

function line(row, keys, extra, forms) {
  const cell = (key) => {
    const given = value(key, row[key], forms);
    return el("td", { "data-label": key.replaceAll("_", " "), class: given instanceof Element && given.dataset.nothing ? "none" : "" }, given);
  };
  return el("tr", { "data-row": true }, keys.map(cell), extra ? el("td", { class: "last" }, extra(row)) : null);
}

/** Keys and values, for one object. */
export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, given]) => given !== null && given !== undefined && given !== "").map(([key, given]) => el("div", {}, el("dt", {}, key), el("dd", {}, given))));
}
