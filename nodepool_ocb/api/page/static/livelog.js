/**
 * The log of a run or a build, as it grows. It is asked for by offset, so after a break it goes on at the byte that was reached, at
 * any server. The page keeps the end of the log alone: a log without any newline costs no more than another.
 */
import { Refused, span } from "./api.js";
import { el, show } from "./dom.js";
import { folded, legible } from "./log.js";

const KEPT = 200_000; // characters
const WAIT_SECONDS = 15; // that the server waits for more
const FIRST_MS = 1000; // after a fault; then twice as long each time
const LONGEST_MS = 15_000;

/**
 * Show in `place` the log at `path` (".../log"), from near its end on. `fallback`: what is shown where no daemon has the log.
 * Gives a function that ends it.
 */
export function liveLog(place, path, fallback = "") {
  const box = el("pre", { class: "log", tabindex: 0, "aria-label": "Output" });
  const about = el("p", { class: "quiet", role: "status" });
  const ending = new AbortController();
  const state = { path, box, about, signal: ending.signal, at: -KEPT, begins: null, text: "", size: 0, asked: false, decoder: new TextDecoder() };
  box.textContent = folded(legible(fallback));
  show(place, about, box);
  run(state, fallback);
  return () => ending.abort();
}

async function run(state, fallback) {
  let pause = FIRST_MS;
  while (!state.signal.aborted) {
    if (document.hidden) {
      await rest(FIRST_MS, state.signal); // a browser has few connections to one server
      continue;
    }
    try {
      const began = performance.now();
      const part = await span(state.path, { offset: state.at, wait: state.at < 0 ? 0 : WAIT_SECONDS }, state.signal);
      pause = FIRST_MS;
      taken(state, part);
      if (part.ended && state.at >= part.size) return tell(state, `The whole log has ${bytes(state.at)}; it has ended.`);
      tell(state, `Follows: ${bytes(state.at)}.`);
      if (!part.data.byteLength && performance.now() - began < FIRST_MS) await rest(FIRST_MS, state.signal); // it does not wait
    } catch (error) {
      if (state.signal.aborted) return;
      if (!(error instanceof Refused)) throw error;
      if (error.problem.code === "log-shorter") restart(state);
      else if (error.problem.code === "no-log" && error.problem.ended) return tell(state, fallback ? "No daemon has the whole log; this is its recorded end." : "No daemon has such a log: nothing was printed, or the log was removed.");
      else if (error.problem.code === "no-log") {
        awaitFirst(state);
        pause = FIRST_MS; // it is no fault
      } else if ([401, 403].includes(error.problem.status)) return tell(state, error.message);
      else tell(state, `${error.message}; asks again`);
      await rest(pause, state.signal);
      pause = Math.min(LONGEST_MS, pause * 2);
    }
  }
}

function taken(state, part) {
  state.begins ??= part.offset;
  if (state.at < 0) state.text = ""; // in place of the fallback
  state.at = part.offset + part.data.byteLength;
  state.text = (state.text + state.decoder.decode(part.data, { stream: true })).slice(-KEPT);
  if (state.asked) return;
  state.asked = true;
  requestAnimationFrame(() => {
    state.asked = false;
    painted(state);
  });
}

/** Nothing has been printed yet: the next request waits for the first byte. */
function awaitFirst(state) {
  Object.assign(state, { at: 0, begins: 0, text: "", decoder: new TextDecoder() });
  tell(state, "Nothing has been printed yet.");
}

/** The log is shorter than the part that was read: it begins anew. */
function restart(state) {
  Object.assign(state, { at: 0, begins: 0, text: "", decoder: new TextDecoder() });
}

/** Stay at the end, if the end was shown. */
function painted({ box, text }) {
  const near = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  box.textContent = folded(legible(text));
  if (near) box.scrollTop = box.scrollHeight;
}

function tell(state, text) {
  const cut = state.begins > 0 || state.at - (state.begins ?? 0) > KEPT ? " Shown is its end." : "";
  const whole = `${text}${cut}`;
  if (state.about.textContent !== whole) state.about.textContent = whole;
}

function bytes(count) {
  return `${Math.max(0, count).toLocaleString("en")} bytes`;
}

function rest(milliseconds, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      done();
    });
  });
}
