/** What else is wrong in the cluster, beside errors: lists that are shown if they are not empty. */
import { el, link } from "./dom.js";
import { counted } from "./format.js";
import { to } from "./router.js";

/** A line if noderoles wait and no annealer can take them; else null. */
export function stopped(found) {
  const waiting = found.noderoles.TODO ?? 0;
  const annealers = found.daemons.filter((each) => each.kind === "annealer");
  if (!waiting || annealers.some((each) => !each.paused && !each.trouble)) return null;
  const why = annealers.length ? "no annealer takes work" : "no annealer runs";
  const start = annealers.length ? [" See ", link("Daemons", to("daemons")), "."] : [" On a host of annealers: ", el("code", {}, "systemctl start nodepool-ocb-annealer")];
  return el("p", { class: "reason bad", role: "alert" }, el("b", {}, `${counted(waiting, "noderole")} to do, and ${why}.`), start);
}

/** [title, rows, columns] of each list. */
export function troubles(found) {
  const { images } = found;
  return [
    ["Claims held longer than a run can last", found.overdue, ["noderole", "since", "reason"]],
    ["Outdated noderoles", found.outdated],
    ["Drift", found.drift.filter((each) => each.drifted || each.unknown), ["deployment", "drifted", "unknown", "in_sync", "advice"]],
    ["Hooks without code", found.hooks_without_code],
    ["The webhook fails", found.webhook ? [found.webhook] : []],
    ["Newest build with a builder that is gone", images.bereft, ["image", "build", "builder", "since"]],
    ["Uploads that no builder reaches", images.stranded, ["image", "build", "provider", "state", "since"]],
    ["Images that builders make differently", images.differing],
    ["Records that cannot be read", found.quarantined],
  ].filter(([, rows]) => rows?.length);
}
