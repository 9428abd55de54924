/** The views that are lists: each reads rows of the API and shows them in one way. */
import { buttons } from "./actions.js";
import { get, Refused } from "./api.js";
import { card, el, link, show } from "./dom.js";
import { leaseActions } from "./lease.js";
import { follow } from "./live.js";
import { withWait } from "./rollout.js";
import { setQuery, to } from "./router.js";
import { table } from "./table.js";

const OFTEN_SECONDS = 3; // records of rollouts, images and pools are not among those that a change is heard of

/** Show lists, and renew them. `read` gives the parts of the view. */
export function list(place, title, read, controls = null) {
  const body = el("div", { class: "stack" });
  const fault = el("p", { class: "fault", role: "alert" });
  show(place, el("div", { class: "bar" }, el("h1", {}, title), controls), fault, body);
  let before = null;
  const load = async () => {
    try {
      const found = await read();
      fault.textContent = "";
      const text = JSON.stringify(found.map((part) => [part.title, part.rows, part.notes]));
      if (text === before) return;
      before = text;
      show(body, found.map((part) => card(part.title, (part.notes ?? []).map((note) => el("p", { class: "quiet" }, note)), table(part.rows, part), part.more)));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      fault.textContent = error.problem.status === 403 ? `This view is closed to your token: ${error.message}.` : error.message;
    }
  };
  load();
  return Object.assign(follow(load, OFTEN_SECONDS), { load });
}

/** The rows of an answer, and what the server says about them. */
export async function rows(path, query = {}, pick = (answer) => answer) {
  const found = await get(path, query);
  return { rows: pick(found.answer), notes: found.notes };
}

/** A field with a filter, which stands in the address. */
export function filtered(query, placeholder, changed) {
  const field = el("input", { class: "filter", "aria-label": "Filter", value: query.get("l") ?? "", placeholder, spellcheck: "false" });
  field.addEventListener("change", () => {
    setQuery({ l: field.value.trim() });
    changed();
  });
  return field;
}

export function nodes(place, { query }) {
  const field = filtered(query, "rack:r1 tag:web alive:no", () => end.load());
  const columns = ["name", "state", "deployment", "alive", "available", "held", "noderoles", "tags", "rack", "reason"];
  const forms = { name: (name) => link(name, to("node", name)) };
  const extra = (row) => buttons([row.held ? "release" : "hold"], { nodes: [row.name] });
  const read = async () => [{ title: "Nodes", columns, forms, extra, ...(await rows("/v1/nodes", { selector: field.value.trim() })) }];
  const end = list(place, "Nodes", read, field);
  return end;
}

export function rollouts(place) {
  const columns = ["rollout", "state", "strategy", "reason", "groups", "nodes", "since", "started", "attempt", "by"];
  return list(place, "Rollouts", async () => [{ title: "Rollouts", columns, ...(await rows("/v1/rollouts", {}, (answer) => answer.map(withWait))) }]);
}

export function runs(place) {
  const columns = ["run", "state", "what", "reason", "nodes", "instances", "counts", "started", "ended", "by", "rollout"];
  const extra = (row) => (row.ended === null ? buttons(["stopTasks"], { run: row.run }) : null);
  return list(place, "Task runs", async () => [{ title: "Runs of task lists", columns, extra, ...(await rows("/v1/task-runs")) }]);
}

export function images(place) {
  const columns = ["name", "build", "since", "formats", "builds", "uploads", "failures", "request", "pause", "builder"];
  const forms = { name: (name) => link(name, to("image", name)) };
  const extra = (row) => buttons(["build", row.pause ? "unpauseImage" : "pauseImage"], { image: row.name });
  const spread = (answer) => answer.map((row) => ({ ...row, uploads: `${row.uploads.ready} of ${row.uploads.all} ready`, pause: row.pause ?? row.paused_in }));
  return list(place, "Images", async () => [
    { title: "Images", columns, forms, extra, ...(await rows("/v1/images", {}, spread)) },
    { title: "Uploads", columns: ["image", "build", "provider", "upload", "state", "since", "external_id", "reason"], ...(await rows("/v1/uploads")) },
  ]);
}

/** Nodes of pools; the comment of a hold is the reason of its state. */
function commented(answer) {
  return answer.map((row) => ({ ...row, reason: row.reason ?? row.comment }));
}

export function pool(place) {
  const request = (name) => link(name, to("request", name));
  const lease = (name) => link(name, to("lease", name));
  return list(place, "Pool", async () => [
    { title: "Requests", columns: ["name", "state", "labels", "since", "place", "waits_for", "reason", "nodes", "launcher", "requestor", "tenant"], forms: { name: request, nodes: lease }, ...(await rows("/v1/requests")) },
    { title: "Pools", columns: ["name", "state", "labels", "launchers", "nodes", "requests"], ...(await rows("/v1/pools")) },
    { title: "Nodes of pools", columns: ["name", "state", "labels", "provider", "pool", "since", "request", "address", "hostname", "launcher", "holder", "reason"], forms: { name: lease, request }, extra: leaseActions, ...(await rows("/v1/pool-nodes", {}, commented)) },
  ]);
}

export function daemons(place) {
  const columns = ["kind", "host", "state", "trouble", "paused", "version", "slots", "started", "id"];
  const extra = (row) => row.kind === "api" ? null : buttons([row.paused ? "resumeDaemon" : "pauseDaemon"], { daemons: [`${row.kind}@${row.host}`] });
  return list(place, "Daemons", async () => [{ title: "Daemons", columns, extra, ...(await rows("/v1/daemons")) }]);
}

export function locks(place) {
  const columns = ["kind", "name", "owner", "host", "purpose", "since"];
  const extra = (row) => (row.noderole ? buttons(["cancel"], { noderoles: [row.noderole] }) : null);
  return list(place, "Locks", async () => [{ title: "Claims and locks", columns, extra, ...(await rows("/v1/locks")) }]);
}
