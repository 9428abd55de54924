/**
 * Changes, as they happen. A view asks to be called again after a change of the records; this module alone knows how the page
 * hears of one. Today it asks for a small document with its ETag, which costs the server some bytes while nothing changes.
 */
import { get, freshness } from "./api.js";

const LOOK_MS = 700; // between two looks for a change
const AWAY_MS = 3000; // the same while the server does not answer, or the page is not visible
const viewers = new Set();
let seen = null;
let timer = null;

/** Call `refresh` after each change, and every `seconds` too if they are given. Gives a function that ends it. */
export function follow(refresh, seconds = null) {
  const viewer = { refresh, seconds, last: performance.now(), busy: false, again: false };
  viewers.add(viewer);
  if (timer === null) timer = setTimeout(look, LOOK_MS);
  return () => viewers.delete(viewer);
}

/** Look at once, after a write of our own. */
export function changed() {
  for (const each of viewers) run(each);
}

async function look() {
  let found = seen;
  try {
    if (viewers.size && !freshness.signedOut) found = (await get("/v1/deployments")).answer;
  } catch {
    // the header of the page tells it
  }
  const now = performance.now();
  for (const each of viewers) {
    if (found !== seen || (each.seconds !== null && now - each.last > each.seconds * 1000)) run(each);
  }
  seen = found;
  timer = setTimeout(look, freshness.fault || document.hidden ? AWAY_MS : LOOK_MS);
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
