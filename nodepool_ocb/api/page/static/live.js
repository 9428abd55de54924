/**
 * Changes, as they happen. A view asks to be called again after a change of the records; this module alone knows how the page
 * hears of one: by the events of the server. The browser connects again by itself. While it cannot, and for a token that may not
 * follow events, the page asks for a small document with its ETag, which costs the server some bytes while nothing changes.
 */
import { freshness, get, heard } from "./api.js";

const TOGETHER_MS = 120; // changes that come one after the other are shown together
const LOOK_MS = 2000; // between two looks without events
const AWAY_MS = 4000; // the same while the page is not visible
const BEAT_MS = 4000; // between two looks with events: they tell how fresh the records are
const AGAIN_MS = 10000; // after the server refused events
const viewers = new Set();
let source = null;
let tried = 0;
let seen = null;
let timer = null;
let due = null;

/** Call `refresh` after each change, and every `seconds` too if they are given. Gives a function that ends it. */
export function follow(refresh, seconds = null) {
  const viewer = { refresh, seconds, last: performance.now(), busy: false, again: false };
  viewers.add(viewer);
  listen();
  if (timer === null) timer = setTimeout(look, LOOK_MS);
  return () => viewers.delete(viewer);
}

/** Show all again at once, after a write of our own. */
export function changed() {
  clearTimeout(due);
  due = null;
  for (const each of viewers) run(each);
}

/** End the events, with the session. */
export function stop() {
  source?.close();
  source = null;
}

/** Follow the events. A page that is not visible does not: a browser has few connections to one server. */
function listen() {
  const refused = source?.readyState === EventSource.CLOSED && performance.now() - tried > AGAIN_MS;
  if ((source !== null && !refused) || freshness.signedOut || document.hidden) return;
  tried = performance.now();
  source = new EventSource("/v1/events");
  for (const name of ["begin", "entry", "state", "reset"]) {
    source.addEventListener(name, (event) => {
      heard(JSON.parse(event.data).zxid ?? null);
      due ??= setTimeout(changed, TOGETHER_MS);
    });
  }
  source.addEventListener("end", stop);
}

/** Whether events come. */
function connected() {
  return source?.readyState === EventSource.OPEN;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) stop();
  else if (viewers.size) {
    listen();
    changed();
  }
});

async function look() {
  if (viewers.size) listen();
  const now = performance.now();
  if (!connected() || now - (freshness.at ?? 0) > BEAT_MS) await compare();
  for (const each of viewers) {
    if (each.seconds !== null && now - each.last > each.seconds * 1000) run(each);
  }
  timer = setTimeout(look, freshness.fault || document.hidden ? AWAY_MS : LOOK_MS);
}

/** Ask for a small document, and show all again if it has changed. */
async function compare() {
  if (!viewers.size || freshness.signedOut) return;
  try {
    const found = (await get("/v1/deployments")).answer;
    if (found !== seen) changed();
    seen = found;
  } catch {
    // the header of the page tells it
  }
}

async function run(viewer) {
  if (viewer.busy) {
    viewer.again = true; // one more after this one shows all changes that come meanwhile
    return;
  }
  viewer.busy = true;
  try {
    do {
      viewer.again = false;
      viewer.last = performance.now();
      await viewer.refresh();
    } while (viewer.again && viewers.has(viewer));
  } finally {
    viewer.busy = false;
  }
}
