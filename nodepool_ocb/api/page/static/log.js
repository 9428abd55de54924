/**
 * The output of a machine, as text. Escape codes and control characters are shown as signs and have no effect; a long line is
 * folded, and a long text is shown from its end.
 */
import { el } from "./dom.js";

const MOST = 200_000; // characters that are shown at first
const LONGEST_LINE = 2_000;
// colours and movements of a terminal, titles of its window, and shorter codes
const CODES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** The text without codes of terminals. */
export function legible(text) {
  return text.replace(/\r\n/g, "\n").replace(CODES, "").replace(CONTROLS, "\ufffd");
}

/** Lines that are not too long for a browser. */
export function folded(text) {
  return text
    .split("\n")
    .map((line) => (line.length > LONGEST_LINE ? line.match(new RegExp(`.{1,${LONGEST_LINE}}`, "gsu")).join("\n") : line))
    .join("\n");
}

/** An element with the output, scrolled to its end. */
export function output(text) {
  const whole = text ?? "";
  const box = el("pre", { class: "log", tabindex: 0, "aria-label": "Output" });
  const fill = (part) => {
    box.textContent = folded(legible(part));
  };
  fill(whole.slice(-MOST));
  const more = el("button", { type: "button" }, `Show all ${whole.length.toLocaleString("en")} characters`);
  more.addEventListener("click", () => {
    fill(whole);
    more.remove();
  });
  requestAnimationFrame(() => {
    box.scrollTop = box.scrollHeight;
  });
  return whole.length > MOST ? [more, box] : box;
}
