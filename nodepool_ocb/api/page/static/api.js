/**
 * Requests to the server. It answers the cookie of the session, which no script reads. A read repeats its ETag, so an
 * unchanged document costs some bytes. Each answer tells how fresh the server's records are.
 */

/** A refusal of the server, with its problem document. */
export class Refused extends Error {
  constructor(problem) {
    super(problem.hint ? `${problem.detail} (${problem.hint})` : problem.detail);
    this.problem = problem;
  }
}

const MOST_KEPT = 40;
const HEADERS = { "Ocb-Page": "1" };
const kept = new Map(); // address -> {etag, body}
const listeners = new Set();

/** The newest answer: its zxid, the age of ZooKeeper's newest word to the server, when it came, and a fault. */
export const freshness = { zxid: null, age: null, at: null, fault: null, signedOut: false };

/** Call `listener` whenever `freshness` has changed. */
export function onFreshness(listener) {
  listeners.add(listener);
}

/** A read: GET `path` with the parts of a query; a list gives a part several times. */
export async function get(path, query = {}) {
  const address = path + search(query);
  const known = kept.get(address);
  const answer = await ask(address, { headers: known ? { ...HEADERS, "If-None-Match": known.etag } : HEADERS });
  if (answer.status === 304) return known.body;
  const body = await answer.json();
  const etag = answer.headers.get("ETag");
  kept.delete(address);
  if (etag) kept.set(address, { etag, body });
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  return body;
}

/**
 * An operation by its name. Gives {answers, rows, notes, agree, done}. `plan` is the digest of the dry run that the server
 * must find again.
 */
export async function call(name, body, plan = null) {
  const headers = { ...HEADERS, "Content-Type": "application/json", ...(plan ? { "If-Match": `"${plan}"` } : {}) };
  const answer = await ask(`/v1/operations/${name}`, { method: "POST", headers, body: JSON.stringify(body) });
  const found = { answers: [], rows: [], notes: [], agree: null, done: null };
  for (const text of (await answer.text()).split("\n")) {
    if (!text) continue;
    const line = JSON.parse(text);
    if (line.error) throw new Refused(line.error);
    if ("note" in line) found.notes.push(line.note);
    if ("answer" in line) found.answers.push(line.answer);
    if ("rows" in line) found.rows.push(...line.rows);
    if ("agree" in line) found.agree = line.agree;
    if ("done" in line) found.done = line.done;
  }
  return found;
}

/** A part of a log: {data, offset, size, ended}. A refusal of no log has `ended`, too: whether none will come. */
export async function span(path, query, signal) {
  const answer = await ask(path + search(query), { headers: HEADERS, signal });
  const number = (name) => Number(answer.headers.get(name));
  return { data: await answer.arrayBuffer(), offset: number("Log-Offset"), size: number("Log-Size"), ended: answer.headers.get("Log-Ended") === "yes" };
}

/** The session: null without one. */
export async function session() {
  const found = await (await ask("/v1/session", { headers: HEADERS })).json();
  return found.name === null ? null : found;
}

/** Whether people may also sign in at an issuer of OpenID Connect. */
export async function offersIssuer() {
  return (await (await ask("/v1/session", { headers: HEADERS })).json()).oidc;
}

/** Go to the issuer, which sends the browser back to the server. */
export async function signInAtIssuer() {
  const { address } = await (await ask("/v1/session/oidc", { method: "POST", headers: HEADERS })).json();
  location.assign(address);
}

export async function signIn(token) {
  const headers = { ...HEADERS, "Content-Type": "application/json" };
  const answer = await ask("/v1/session", { method: "POST", headers, body: JSON.stringify({ token }) });
  freshness.signedOut = false;
  return answer.json();
}

export async function signOut() {
  kept.clear();
  await ask("/v1/session", { method: "DELETE", headers: HEADERS });
}

/** An event of the server tells a zxid: the next reads must show it. */
export function heard(zxid) {
  if (zxid !== null && zxid > (freshness.zxid ?? 0)) note({ zxid, age: 0, at: performance.now(), fault: null });
}

function search(query) {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value].flat()) if (each !== null && each !== undefined && each !== "") made.append(name, each);
  }
  const text = made.toString();
  return text ? `?${text}` : "";
}

async function ask(address, options) {
  let answer;
  try {
    answer = await fetch(address, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (options.signal?.aborted) throw error; // the page itself has ended it
    note({ fault: "the server does not answer" });
    throw new Refused({ code: "unreachable", detail: "the server does not answer; the page tries again" });
  }
  const zxid = answer.headers.get("Ocb-Zxid");
  if (zxid !== null) {
    note({ zxid: Number(zxid), age: Number(answer.headers.get("Ocb-Age")), at: performance.now(), fault: null });
  }
  if (answer.ok || answer.status === 304) return answer;
  const problem = await answer.json().catch(() => ({ code: "fault", detail: `the server answered ${answer.status}` }));
  if (answer.status === 401) note({ signedOut: true });
  const ended = answer.headers.get("Log-Ended");
  throw new Refused({ status: answer.status, ...(ended ? { ended: ended === "yes" } : {}), ...problem });
}

function note(changes) {
  Object.assign(freshness, changes);
  for (const each of listeners) each();
}
