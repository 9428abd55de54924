/** The history: the newest entries of the journal, with the values of the fields that changed. */
import { el, link } from "./dom.js";
import { change, made, moment } from "./format.js";
import { filtered, list, rows } from "./lists.js";
import { to } from "./router.js";

const LIMIT = 200; // entries, at first
const MOST_SUBJECTS = 5;
const MOST_CHANGES = 4;
const MOST_FIELDS = 8;
/** The view of an object, by the kind of its record. */
const VIEWS = { node: "node", noderole: "noderole", attributes: "noderole", deployment: "matrix", rollout: "rollout", "run of tasks": "run", "build request": "image", pause: "image", "request for nodes": "request", "node of a pool": "lease" };
const DONE = { create: " created", delete: " deleted" };

/** Show it in `place`. */
export function history(place, { query }) {
  const field = filtered(query, "names, divided by spaces", () => end.load());
  let limit = LIMIT;
  const older = () => {
    limit *= 2;
    end.load();
  };
  const more = () => el("button", { type: "button", "data-key": "older", onclick: older }, "Show older entries");
  const columns = ["at", "login", "host", "verb", "subjects", "reason", "changes"];
  const read = async () => {
    const names = field.value.trim().split(/\s+/).filter(Boolean);
    const pick = (answer) => [...answer.rows].reverse().map(entry);
    const found = await rows("/v1/history", { names, limit }, pick);
    const all = found.rows.length < limit;
    const title = all ? `All ${found.rows.length.toLocaleString("en")} entries of the journal` : `The newest ${limit.toLocaleString("en")} entries of the journal`;
    return [{ title, columns, forms: { at: moment }, most: limit, more: all ? null : more(), ...found }];
  };
  const end = list(place, "History", read, field);
  return end;
}

function entry(row) {
  const kinds = new Map(row.changes.map((each) => [each.name, each.kind]));
  const subjects = row.subjects.slice(0, MOST_SUBJECTS).map((name) => named(name, kinds.get(name)));
  const changes = row.changes.slice(0, MOST_CHANGES).map(effect);
  return {
    ...row,
    subjects: lines(subjects, row.subjects.length - subjects.length + row.more),
    changes: lines(changes, row.changes.length - changes.length + row.left_out),
  };
}

/** One below the other, with the number of those that are left out. */
function lines(shown, left) {
  return [...shown, ...(left > 0 ? [`and ${left.toLocaleString("en")} more`] : [])].map((each) => el("div", {}, each));
}

/** The name of an object; a link, where it has a view. */
function named(name, kind = name.includes("@") ? "noderole" : undefined) {
  const view = ["rollout", "run of tasks"].includes(kind) && !name.includes("/") ? null : VIEWS[kind]; // without an id: the newest of a deployment
  return view ? link(name, to(view, name.replace(/ \(\w+\)$/, ""))) : name; // "ntp@n1 (user)": its attributes
}

function effect(each) {
  const fields = each.fields ?? [];
  const shown = fields.slice(0, MOST_FIELDS).map(each.change === "create" ? made : change);
  const left = fields.length - shown.length + (each.more ?? 0);
  const words = [...shown, ...(left > 0 ? [`${left} more`] : [])].join("; ");
  return [`${each.kind} `, named(each.name, each.kind), DONE[each.change] ?? "", words ? ` (${words})` : each.state ? `: ${each.state}` : ""];
}
