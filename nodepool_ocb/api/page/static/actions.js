/**
 * The actions of an incident, as a table: one row makes the button, the call of the operation, its command line and its curl
 * form. A target names the objects: {noderoles: [...]} or {selector} of many, {deployment}, {rollout, group}, and so on.
 *
 * `many`: the field with the names; `one`: the field with the only name; `none`: the operation has no object.
 * `reason`: "field" if a record keeps it, so that the operation has a field for it; else the journal alone has it.
 * "comment": it stands on the record, too. `count`: a person types the number of objects, if there are several.
 * `about`: sentences about the effect, for the dialog. `ask`: fields that a person types there, with their labels; the target has
 * their first values.
 */
import { el } from "./dom.js";
import { open } from "./dialog.js";

export const ACTIONS = {
  retry: { label: "Retry", operation: "noderole/retry", many: "noderoles" },
  refresh: { label: "Refresh", operation: "noderole/refresh", many: "noderoles" },
  commit: { label: "Commit", operation: "noderole/commit", many: "noderoles" },
  propose: { label: "Propose", operation: "noderole/propose", many: "noderoles", count: true },
  cancel: { label: "Cancel runs", operation: "noderole/cancel", many: "noderoles", reason: "field", count: true },
  redeploy: { label: "Redeploy", operation: "noderole/redeploy", many: "noderoles", count: true, danger: true, about: "It runs again from the start, also where its role is destructive and was done: that can destroy data on the machine. The noderoles below it wait, and run again after it. Retry is for noderoles that failed, and leaves out all others." },
  hold: { label: "Hold", operation: "node/hold", many: "nodes", reason: "field", count: true },
  release: { label: "Release", operation: "node/release", many: "nodes" },
  adopt: { label: "Adopt", operation: "node/adopt", first: ["mac"], one: "name", options: ["deployment"], ask: { name: "Node", deployment: "Deployment, of a new node" }, about: "The machine becomes this node, a new one or one that exists. Annealers talk to the host keys that it registered. Nothing is installed." },
  refuse: { label: "Refuse", operation: "registration/refuse", one: "mac", reason: "field", about: "The machine stays refused, with this reason: no rule makes it a node. Forget lets it ask again." },
  forget: { label: "Forget", operation: "registration/delete", one: "mac", danger: true, about: "The registration goes. A machine that still asks registers again; to keep it out, refuse it. The node of an adopted machine stays." },
  powerOn: { label: "Power on", operation: "power/on", many: "nodes" },
  powerOff: { label: "Power off", operation: "power/off", many: "nodes", count: true, danger: true, about: "The machine is switched off without asking its system. It is refused while a noderole runs there." },
  powerCycle: { label: "Power cycle", operation: "power/cycle", many: "nodes", count: true, danger: true, about: "The machine is switched off, then on, without asking its system. It is refused while a noderole runs there." },
  powerCheck: { label: "Ask", operation: "power/check", many: "nodes", about: "An annealer asks the BMC for the state." },
  pauseAll: { label: "Pause all", operation: "pause", none: true, reason: "field", danger: true },
  resumeAll: { label: "Resume all", operation: "resume", none: true },
  pause: { label: "Pause", operation: "deployment/pause", many: "names", reason: "field" },
  resume: { label: "Resume", operation: "deployment/resume", many: "names" },
  commitDeployment: { label: "Commit", operation: "deployment/commit", one: "name" },
  pauseDaemon: { label: "Pause", operation: "daemon/pause", many: "daemons", reason: "field" },
  resumeDaemon: { label: "Resume", operation: "daemon/resume", many: "daemons" },
  promote: { label: "Promote", operation: "rollout/promote", one: "rollout", first: ["group"], options: ["batch", "attempt"] },
  accept: { label: "Accept", operation: "rollout/accept", one: "rollout", first: ["group"], options: ["attempt"], reason: "field" },
  resumeRollout: { label: "Resume", operation: "rollout/resume", one: "rollout", options: ["attempt"] },
  retryRollout: { label: "Retry", operation: "rollout/retry", one: "rollout", options: ["attempt"] },
  cancelRollout: { label: "Cancel", operation: "rollout/cancel", one: "rollout", reason: "field", danger: true },
  stopTasks: { label: "Stop", operation: "tasks/stop", one: "run", danger: true },
  pauseImage: { label: "Pause", operation: "image/pause", one: "image", reason: "field" },
  unpauseImage: { label: "Resume", operation: "image/unpause", one: "image" },
  build: { label: "Build now", operation: "image/build", one: "image", reason: "field" },
  returnLease: { label: "Return", operation: "lease/return", many: "leases", about: "It counts as used: a launcher deletes its machine, or cleans it if it is static." },
  holdLease: { label: "Hold", operation: "lease/hold", many: "leases", reason: "comment", about: "No launcher hands it out or deletes it until the hold ends." },
  releaseLease: { label: "Release", operation: "lease/release", many: "leases", about: "The hold ends, and it counts as used: a launcher deletes its machine, or cleans it if it is static." },
  deleteLease: { label: "Delete", operation: "lease/delete", many: "leases", danger: true, about: "A launcher deletes its machine, then the record." },
};

/** The objects of a target, for people: names, or the selector. */
export function subjects(action, target) {
  if (action.none) return ["the whole cluster"];
  if (action.ask) return action.first.map((name) => target[name]);
  if (action.one) return [[...(action.first ?? []).map((name) => target[name]), target[action.one]].join(" of ")];
  return target.selector ? [target.selector] : target[action.many];
}

/** The fields of the operation. */
export function fields(action, target, reason) {
  const found = {};
  if (action.many && target.selector) found.selector = target.selector;
  else if (action.many) found[action.many] = target[action.many];
  if (action.one) found[action.one] = target[action.one];
  for (const name of [...(action.first ?? []), ...(action.options ?? [])]) {
    if (target[name] !== undefined && target[name] !== null) found[name] = target[name];
  }
  if (action.reason) found[action.reason === "comment" ? "comment" : "reason"] = reason;
  return found;
}

/** The command line that does the same. */
export function commandLine(action, target, reason) {
  const words = ["nodepool-ocb", ...action.operation.split("/")];
  words.push(...(action.first ?? []).map((name) => target[name]));
  if (action.many && target.selector) words.push("-l", target.selector);
  else if (action.many) words.push(...target[action.many]);
  if (action.one) words.push(target[action.one]);
  for (const name of action.options ?? []) if (target[name] !== undefined) words.push(`--${name}`, target[name]);
  if (reason && action.reason === "comment") words.push("--comment", reason);
  if (reason) words.push("--reason", reason);
  return words.map((word) => quoted(String(word))).join(" ");
}

/** The curl form that does the same, with the plan of the dry run. */
export function curl(action, target, reason, plan) {
  const body = JSON.stringify({ fields: fields(action, target, reason), reason });
  const match = plan ? ` -H 'If-Match: "${plan}"'` : "";
  return `curl -H "$AUTH"${match} -d ${quoted(body)} "${location.origin}/v1/operations/${action.operation}"`;
}

function quoted(word) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A button for each action, which opens its dialog. */
export function buttons(names, target) {
  return el(
    "span",
    { class: "actions" },
    names.map((name) => {
      const action = ACTIONS[name];
      const about = `${action.label}: ${subjects(action, target).slice(0, 3).join(", ")}`;
      const properties = { type: "button", class: action.danger ? "danger" : "", "data-action": name, "data-key": about };
      return el("button", { ...properties, "aria-label": about, onclick: () => open(action, target) }, action.label);
    }),
  );
}
