/**
 * The dialog of an action. It shows the changes of the dry run, the command line and the curl form, and asks for a reason. The
 * write carries the plan of the dry run: if a record has changed since, the server refuses it, and a new dry run is shown.
 */
import { commandLine, curl, fields, subjects } from "./actions.js";
import { call, Refused } from "./api.js";
import { announce, el, show } from "./dom.js";
import { change, counted, made } from "./format.js";
import { changed } from "./live.js";

const MOST_ROWS = 40;
const UNREASONED = "(reason)"; // of a dry run before a person has typed one

/** Open it, with a dry run. */
export function open(action, target) {
  const parts = {
    result: el("div", { class: "result", "aria-live": "polite" }, "Looking at the changes…"),
    reason: el("input", { id: "reason", autocomplete: "off", maxlength: 500, required: true }),
    count: el("input", { id: "count", inputmode: "numeric", autocomplete: "off" }),
    agree: el("input", { id: "agree", type: "checkbox" }),
    asked: el("p", { hidden: true }),
    counted: el("p", { hidden: true }),
    command: el("pre", { tabindex: 0, "aria-label": "Command line" }),
    curl: el("pre", { tabindex: 0, "aria-label": "curl" }),
    fault: el("p", { class: "fault", role: "alert" }),
    lacks: el("p", { class: "quiet", role: "status" }),
    go: el("button", { class: action.danger ? "danger primary" : "primary", disabled: true }, action.label),
  };
  const state = { action, target: { ...target }, parts, plan: null, rows: null, agreed: false };
  const named = subjects(action, target);
  const about = named.length > 3 ? `${named.slice(0, 3).join(", ")} and ${named.length - 3} more` : named.join(", ");
  show(parts.asked, parts.agree, el("label", { for: "agree" }, ""));
  const box = el(
    "dialog",
    { class: "action", "aria-labelledby": "act", onclose: () => box.remove() },
    el("h2", { id: "act" }, `${action.label}: `, el("span", { class: "subject" }, about)),
    el(
      "form",
      { onsubmit: (event) => submit(event, state, box) },
      action.about ? el("p", { class: "reason" }, action.about) : null,
      asked(state),
      parts.result,
      el("label", { for: "reason" }, "Reason, for the journal (required)"),
      parts.reason,
      parts.counted,
      parts.asked,
      parts.fault,
      el("div", { class: "actions" }, parts.go, el("button", { type: "button", onclick: () => box.close() }, "Close"), parts.lacks),
      el("details", {}, el("summary", {}, "The same as a command, and with curl"), parts.command, parts.curl),
    ),
  );
  parts.reason.addEventListener("input", () => words(state));
  parts.count.addEventListener("input", () => words(state));
  parts.agree.addEventListener("change", () => words(state));
  document.body.append(box);
  box.showModal();
  (box.querySelector("input:invalid") ?? parts.reason).focus();
  dryRun(state);
}

/** The fields that a person types; each change has another dry run. */
function asked(state) {
  return Object.entries(state.action.ask ?? {}).map(([name, label]) => {
    const field = el("input", { id: `ask-${name}`, autocomplete: "off", spellcheck: "false", required: true, value: state.target[name] ?? "" });
    field.addEventListener("change", () => {
      state.target[name] = field.value.trim();
      dryRun(state);
    });
    return [el("label", { for: `ask-${name}` }, label), field];
  });
}

function body(state, more) {
  const reason = state.parts.reason.value.trim();
  return { fields: fields(state.action, state.target, reason || UNREASONED), reason: reason || null, ...more };
}

async function dryRun(state) {
  const { parts } = state;
  state.plan = state.rows = null;
  const lacking = Object.entries(state.action.ask ?? {}).find(([name]) => !state.target[name]);
  if (lacking) {
    show(parts.result, el("p", { class: "quiet" }, `Type first: ${lacking[1]}.`));
    words(state);
    return;
  }
  const given = JSON.stringify(state.target);
  try {
    const found = await call(state.action.operation, body(state, { dry_run: true, agreed: true }));
    if (given !== JSON.stringify(state.target)) return; // a person has typed another value meanwhile
    state.plan = found.done?.plan ?? null;
    state.rows = found.rows;
    show(parts.result, changes(found));
    askForCount(state);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (given !== JSON.stringify(state.target)) return;
    state.rows = null;
    show(parts.result, el("p", { class: "fault" }, `The dry run was refused: ${error.message}`));
  }
  words(state);
}

/** The changes of the dry run. */
function changes(found) {
  const explained = found.answers.flatMap((each) => (Array.isArray(each?.explanations) ? each.explanations : []));
  const rows = found.rows.slice(0, MOST_ROWS).map((row) =>
    el(
      "li",
      {},
      `${row.change} ${row.kind} `,
      el("b", {}, row.name),
      row.fields?.length ? el("span", { class: "field" }, ` ${row.fields.map(row.change === "create" ? made : change).join("; ")}`) : null,
    ),
  );
  const left = found.rows.length - rows.length;
  return [
    el("p", {}, found.rows.length ? `This makes ${counted(found.rows.length, "change")}:` : "This changes nothing."),
    el("ul", { class: "changes", tabindex: 0, "aria-label": "Changes" }, rows, left > 0 ? el("li", {}, `and ${left} more`) : null),
    [...explained, ...found.notes].map((each) => el("p", { class: "quiet" }, each)),
  ];
}

function objects(state) {
  return new Set(state.rows.map((row) => `${row.kind} ${row.name}`)).size;
}

/** A destructive action on several objects asks for their number. */
function askForCount(state) {
  const { action, parts, rows } = state;
  if (!(action.count || action.danger) || action.one || rows.length < 2) return; // one object may be several records
  show(parts.counted, el("label", { for: "count" }, `Type ${objects(state)} to confirm the number of records: `), parts.count);
  parts.counted.hidden = false;
}

/** Renew the command and the curl form, and whether all is given. */
function words(state) {
  const { action, target, parts } = state;
  const reason = parts.reason.value.trim();
  parts.command.textContent = commandLine(action, target, reason || UNREASONED);
  parts.curl.textContent = curl(action, target, reason || UNREASONED, state.plan);
  const right = parts.counted.hidden || (state.rows && Number(parts.count.value) === objects(state));
  const agreed = parts.asked.hidden || parts.agree.checked;
  parts.go.disabled = !(reason && right && agreed && state.rows?.length);
  const lacks = !state.rows?.length ? "" : !reason ? "Type a reason first." : !right ? "Type the number of records." : !agreed ? "Tick the box above." : "";
  if (parts.lacks.textContent !== lacks) parts.lacks.textContent = lacks;
}

async function submit(event, state, box) {
  event.preventDefault();
  const { parts } = state;
  if (parts.go.disabled) return;
  parts.go.disabled = true;
  parts.fault.textContent = "";
  try {
    const agreed = !parts.asked.hidden && parts.agree.checked;
    const found = await call(state.action.operation, body(state, { agreed }), state.plan);
    if (found.agree) {
      parts.asked.lastChild.textContent = `This will ${found.agree.text}. I mean it.`;
      parts.asked.hidden = false;
      words(state);
      return;
    }
    announce(`${state.action.label}: ${counted(found.rows.length, "change")} written`);
    box.close();
    changed();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    parts.fault.textContent = error.message;
    if (error.problem.status === 412) await dryRun(state);
    else words(state);
  }
}
