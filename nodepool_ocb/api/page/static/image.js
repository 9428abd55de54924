/** One image: why it is not built, its builds with their logs, and its uploads. */
import { buttons } from "./actions.js";
import { get, Refused } from "./api.js";
import { card, el, show } from "./dom.js";
import { age, clock } from "./format.js";
import { follow } from "./live.js";
import { liveLog } from "./livelog.js";
import { legible } from "./log.js";
import { route, setQuery } from "./router.js";
import { facts, table } from "./table.js";

const OFTEN_SECONDS = 2;

/** Show it in `place`. */
export function image(place, { name }) {
  const state = { name, build: route().query.get("build"), log: null, logged: null, before: null, parts: Object.fromEntries(["head", "log", "rest"].map((key) => [key, el("div", { class: "stack" })])) };
  show(place, state.parts.head, state.parts.log, state.parts.rest);
  const load = () => loaded(state);
  load();
  const end = follow(load, OFTEN_SECONDS);
  return () => {
    state.log?.();
    end();
  };
}

async function loaded(state) {
  const { parts } = state;
  try {
    const found = (await get(`/v1/images/${encodeURIComponent(state.name)}`)).answer;
    const text = JSON.stringify(found);
    if (text === state.before) return;
    state.before = text;
    show(parts.head, head(found));
    show(parts.rest, rest(state, found));
    logged(state, found);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    state.before = null;
    show(parts.head, el("h1", {}, state.name), el("p", { class: "fault", role: "alert" }, error.message));
  }
}

function head(found) {
  const failed = found.builds.at(-1)?.state === "failed" ? found.builds.at(-1) : null;
  const paused = found.pause ?? found.paused_in;
  return [
    el("div", { class: "bar" }, el("h1", {}, found.name), buttons(["build", found.pause ? "unpauseImage" : "pauseImage"], { image: found.name })),
    found.cannot_build ? el("p", { class: "reason bad" }, `No running builder can build it: ${legible(found.cannot_build)}`) : null,
    failed ? el("p", { class: "reason bad" }, `Build ${failed.build} failed: ${legible(failed.reason ?? "no reason was recorded")}`) : null,
    paused ? el("p", { class: "reason" }, found.pause ? `Paused by ${found.pause.by ?? "an unknown user"}${found.pause.reason ? `: ${legible(found.pause.reason)}` : ""}` : `Paused in ${found.paused_in}`) : null,
    facts([
      ["Newest ready build", found.build],
      ["Since", found.since ? age(found.since) : null],
      ["Formats", found.formats.join(", ")],
      ["Failures since then", found.failures || null],
      ["Next attempt", found.next_attempt ? clock(found.next_attempt) : null],
      ["Requested", found.request ? `by ${found.request.by ?? "an unknown user"}${found.request.reason ? `: ${legible(found.request.reason)}` : ""}` : null],
      ["Built now on", found.builder?.host],
    ]),
  ];
}

/** The build with the log that is shown: the chosen one, the one that is made, or the newest. */
function logged(state, found) {
  const builds = found.builds;
  const wanted = builds.find((each) => each.build === state.build) ?? builds.find((each) => each.state === "building") ?? builds.at(-1);
  const key = wanted ? `${wanted.build} ${wanted.state}` : null;
  if (key === state.logged) return;
  state.log?.();
  Object.assign(state, { logged: key, log: null });
  if (!wanted) {
    show(state.parts.log, card("Log", el("p", { class: "quiet" }, "It has no build yet.")));
    return;
  }
  const place = el("div");
  show(state.parts.log, card(`Log of build ${wanted.build}`, place));
  const path = `/v1/images/${encodeURIComponent(found.name)}/builds/${encodeURIComponent(wanted.build)}/log`;
  const begin = () => {
    state.log?.();
    state.log = liveLog(place, path, wanted.tail ?? "");
  };
  if (wanted.state === "building") begin();
  else ended(place, wanted, begin);
}

/** Of a build that is over, the recorded end; the whole log is with its builder. */
function ended(place, build, begin) {
  show(place, el("p", { class: "quiet" }, `${build.state}, `, age(build.since), " ago. ", build.tail ? "This is its recorded end. " : "No output was recorded. ", build.log ? el("button", { type: "button", "data-key": "whole", onclick: begin }, "Read the log at its builder") : null), build.tail ? el("pre", { class: "log", tabindex: 0, "aria-label": "Output" }, legible(build.tail)) : null);
}

function rest(state, found) {
  const choose = (build) => {
    state.build = build;
    setQuery({ build });
    logged(state, found);
  };
  const builds = [...found.builds].reverse();
  const extra = (row) => el("button", { type: "button", "data-key": `log ${row.build}`, onclick: () => choose(row.build) }, "Log");
  return [
    card("Builds", table(builds, { columns: ["build", "state", "since", "builder", "formats", "reason"], extra, empty: "It has no build yet." })),
    card("Uploads", table(builds.flatMap((each) => each.uploads), { columns: ["provider", "build", "upload", "state", "since", "external_id", "reason"], empty: "It has no upload yet." })),
  ];
}
