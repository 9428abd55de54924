/** Values as people read them: states, ages, times, numbers. */
import { el } from "./dom.js";

/** The states with the letter that the matrix shows, the worst first. */
export const STATES = [
  { state: "ERROR", letter: "E", text: "failed" },
  { state: "TRANSITION", letter: "R", text: "running" },
  { state: "TODO", letter: "T", text: "to do" },
  { state: "BLOCKED", letter: "B", text: "blocked" },
  { state: "PROPOSED", letter: "P", text: "proposed" },
  { state: "ACTIVE", letter: "A", text: "active" },
];
export const BY_LETTER = new Map(STATES.map((each) => [each.letter, each]));
const BY_STATE = new Map(STATES.map((each) => [each.state, each]));

/** Words that stand for a class of colours in other lists. */
const MOODS = {
  bad: ["failed", "gone", "failing", "unknown"],
  busy: ["building", "uploading", "paused", "committing", "stopping", "cancelling", "ending"],
  good: ["ready", "running", "success", "successful", "COMMITTED", "fulfilled"],
};

const MOST_RACKS = 6;
/** Fields of records that are moments. */
const MOMENTS = /(^|\/)(not_before|since|until|at|started|ended|queued|created|expires|state_time)$/;

/** The class of a state's colour. */
export function mood(state) {
  if (BY_STATE.has(state)) return `is-${BY_STATE.get(state).letter}`;
  const found = Object.entries(MOODS).find(([, words]) => words.includes(state));
  return found ? `is-${found[0]}` : "is-plain";
}

/** A state as a letter and a word. */
export function badge(state) {
  const known = BY_STATE.get(state);
  return el("span", { class: `badge ${mood(state)}` }, known ? el("b", { "aria-hidden": "true" }, known.letter) : null, String(state));
}

/** So many seconds in two units at most: "3d 4h". */
export function seconds(count) {
  const whole = Math.max(0, Math.round(count));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${whole < 600 ? ` ${whole % 60}s` : ""}`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
  return `${Math.floor(whole / 86400)}d ${Math.floor((whole % 86400) / 3600)}h`;
}

/** The time since a moment (seconds since 1970), kept up to date. */
export function age(since) {
  if (!since) return el("span", { class: "quiet" }, "–");
  const made = el("time", { datetime: new Date(since * 1000).toISOString(), title: clock(since), "data-since": since });
  made.textContent = seconds(Date.now() / 1000 - since);
  return made;
}

/** A moment by this browser's clock; of today without the date. */
export function clock(at) {
  const text = moment(at);
  return new Date(at * 1000).toDateString() === new Date().toDateString() ? text.slice(text.indexOf(" ") + 1) : text;
}

/** A moment by this browser's clock, with its date. */
export function moment(at) {
  const day = new Date(at * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const date = `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
  return `${date} ${two(day.getHours())}:${two(day.getMinutes())}:${two(day.getSeconds())}`;
}

/** Renew all ages on the page. */
export function renewAges() {
  const now = Date.now() / 1000;
  for (const each of document.querySelectorAll("time[data-since]")) {
    const text = seconds(now - Number(each.dataset.since));
    if (each.textContent !== text) each.textContent = text;
  }
}

/** A number with its noun: "1 node", "3 nodes". */
export function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** The racks of some nodes, from {rack: number of nodes}: " in 2 racks (r1: 3 nodes, r2: 1 node)", or "" without any. */
export function inRacks(counts) {
  const named = Object.entries(counts).sort((one, other) => other[1] - one[1]);
  if (!named.length) return "";
  if (named.length === 1) return ` in rack ${named[0][0]}`;
  const most = named.slice(0, MOST_RACKS).map(([rack, count]) => `${rack}: ${counted(count, "node")}`);
  const left = named.length - most.length;
  return ` in ${counted(named.length, "rack")} (${most.join(", ")}${left > 0 ? `, and ${left} more` : ""})`;
}

/** A field that changes, with its values before and after: "state: PROPOSED → COMMITTED". */
export function change({ field, old, new: value }) {
  return `${field}: ${literal(field, old)} → ${literal(field, value)}`;
}

/** A field of a record that is created: "rack: r1". */
export function made({ field, new: value }) {
  return `${field}: ${literal(field, value)}`;
}

function literal(field, value) {
  if (value === null || value === undefined) return "–";
  if (MOMENTS.test(field) && typeof value === "number" && value > 0) return moment(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** ROLE@FQDN in its parts. */
export function parts(noderole) {
  const at = noderole.indexOf("@");
  return { role: noderole.slice(0, at), node: noderole.slice(at + 1) };
}
