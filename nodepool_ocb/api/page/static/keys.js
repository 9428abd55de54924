/** The keys that hold on every view, and the list of all keys. A view binds its own. */
import { el } from "./dom.js";

const KEYS = [
  ["/", "go to the filter"],
  ["j k, arrows", "the next and the former row"],
  ["h l, arrows", "the next and the former role of the matrix"],
  ["Enter", "open the noderole or the row"],
  ["x", "choose the noderole for an action"],
  ["X", "choose all that the filter shows, or none"],
  ["+ - [ ]", "a shorter and a longer time, the former and the later time, of the timeline"],
  ["g then o m y l n w r t i p h d k", "overview, matrix, graph, timeline, nodes, machines, rollouts, task runs, images, pool, history, daemons, locks"],
  ["?", "this list"],
  ["Escape", "leave the filter or a dialog"],
];
const GO = { o: "overview", m: "matrix", y: "graph", l: "timeline", n: "nodes", w: "machines", r: "rollouts", t: "runs", i: "images", p: "pool", h: "history", d: "daemons", k: "locks" };
const GO_MS = 1500;

/** Whether a key is for a field in which people type. */
export function typing(event) {
  const at = event.target;
  return at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement || at instanceof HTMLSelectElement;
}

/** Bind the keys of the whole page; `to` makes the address of a view. */
export function bindKeys(to) {
  let going = -Infinity; // when `g` was pressed
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing(event)) event.target.blur();
    if (typing(event) || document.querySelector("dialog[open]")) return;
    if (performance.now() - going < GO_MS && GO[event.key]) {
      going = -Infinity;
      location.hash = to(GO[event.key]);
      event.preventDefault();
      event.stopImmediatePropagation();
    } else if (event.key === "g") {
      going = performance.now();
    } else if (event.key === "?") {
      help();
    } else if (event.key === "/") {
      const filter = document.querySelector("input.filter");
      if (filter) {
        event.preventDefault();
        filter.select();
        filter.focus();
      }
    } else if ((event.key === "j" || event.key === "k") && !document.querySelector("canvas")) {
      step(event.key === "j" ? 1 : -1);
    }
  }, true);
}

/** Move the focus among the rows of the view's lists. */
function step(by) {
  const rows = [...document.querySelectorAll("main [data-row]")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + by))];
  const target = next.querySelector("a, button") ?? next;
  if (target === next) next.tabIndex = -1; // else a row without a link cannot have the focus, and stops the way
  target.focus();
}

function help() {
  const box = el(
    "dialog",
    { "aria-labelledby": "keys", onclose: () => box.remove() },
    el("h2", { id: "keys" }, "Keys"),
    el("dl", { class: "keys" }, KEYS.map(([key, text]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)])),
    el("form", { method: "dialog" }, el("button", { autofocus: true }, "Close")),
  );
  document.body.append(box);
  box.showModal();
}
