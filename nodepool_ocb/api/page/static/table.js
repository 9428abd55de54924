/** Rows of the API as a table: the columns come from the rows, and a few names of keys have a form of their own. */
import { el, link } from "./dom.js";
import { age, badge, clock } from "./format.js";
import { legible } from "./log.js";
import { to } from "./router.js";

const LONGEST = 300; // characters of a value
const MOST_ROWS = 500;

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
  started: age,
  ended: age,
  created: age,
  used: age,
  state_time: age,
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

/** The text; of a long one the beginning, up to a space if there is one near, and a mark. */
function cut(text) {
  if (text.length <= LONGEST) return text;
  const end = text.lastIndexOf(" ", LONGEST);
  return `${text.slice(0, end > LONGEST / 2 ? end : LONGEST)} …`;
}

function nothing() {
  return el("span", { class: "quiet" }, "–");
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
 * buttons; `forms`: forms of values, by key.
 */
export function table(rows, { columns, extra, forms, empty = "There is none." } = {}) {
  if (!rows.length) return el("p", { class: "quiet" }, empty);
  const keys = columns ?? Object.keys(rows[0]);
  const head = keys.map((key) => el("th", { scope: "col" }, key.replaceAll("_", " ")));
  const lines = rows.slice(0, MOST_ROWS).map((row) =>
    el(
      "tr",
      { "data-row": true },
      keys.map((key) => el("td", { "data-label": key.replaceAll("_", " ") }, value(key, row[key], forms))),
      extra ? el("td", { class: "last" }, extra(row)) : null,
    ),
  );
  const left = rows.length - lines.length;
  return el(
    "div",
    { class: "wide", tabindex: 0, role: "region", "aria-label": "Table" },
    el("table", {}, el("thead", {}, el("tr", {}, head, extra ? el("th", { scope: "col" }, el("span", { class: "aside" }, "Actions")) : null)), el("tbody", {}, lines)),
    left > 0 ? el("p", { class: "quiet" }, `and ${left} more`) : null,
  );
}

/** Keys and values, for one object. */
export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, given]) => given !== null && given !== undefined && given !== "").map(([key, given]) => el("div", {}, el("dt", {}, key), el("dd", {}, given))));
}
