/** The page: its header, the session, and the view of the present address. */
import { freshness, onFreshness, session, signOut } from "./api.js";
import { append, el, link, show } from "./dom.js";
import { renewAges, seconds } from "./format.js";
import { graph } from "./graph.js";
import { history } from "./history.js";
import { image } from "./image.js";
import { bindKeys } from "./keys.js";
import { lease } from "./lease.js";
import { stop } from "./live.js";
import { daemons, images, locks, nodes, pool, rollouts, runs } from "./lists.js";
import { matrix } from "./matrix.js";
import { node } from "./node.js";
import { noderole } from "./noderole.js";
import { overview } from "./overview.js";
import { request } from "./request.js";
import { rollout } from "./rollout.js";
import { route, to } from "./router.js";
import { signInForm } from "./signin.js";
import { taskrun } from "./taskrun.js";
import { timeline } from "./timeline.js";

/** Each view fills the element and gives a function that ends it. `title`: it stands in the menu. */
const VIEWS = {
  overview: { show: overview, title: "Overview" },
  matrix: { show: matrix, title: "Matrix" },
  graph: { show: graph, title: "Graph" },
  timeline: { show: timeline, title: "Timeline" },
  nodes: { show: nodes, title: "Nodes" },
  rollouts: { show: rollouts, title: "Rollouts" },
  runs: { show: runs, title: "Task runs" },
  images: { show: images, title: "Images" },
  pool: { show: pool, title: "Pool" },
  history: { show: history, title: "History" },
  daemons: { show: daemons, title: "Daemons" },
  locks: { show: locks, title: "Locks" },
  noderole: { show: noderole },
  node: { show: node },
  rollout: { show: rollout },
  image: { show: image },
  run: { show: taskrun },
  request: { show: request },
  lease: { show: lease },
};
const STALE_SECONDS = 10;

const main = document.getElementById("main");
let end = () => {};
let person = null;

function menu(view) {
  const items = Object.entries(VIEWS).filter(([, each]) => each.title);
  show(
    document.getElementById("views"),
    items.map(([name, each]) => link(each.title, to(name), { "aria-current": name === view ? "page" : null })),
  );
}

function shown() {
  const found = route();
  const view = VIEWS[found.view] ?? VIEWS.overview;
  end();
  end = () => {};
  if (person === null) return;
  menu(found.view);
  document.title = `${found.name || view.title || found.view} – nodepool-ocb`;
  const place = el("div", { class: `view view-${found.view}` });
  show(main, place);
  end = view.show(place, found) ?? (() => {});
  if (document.activeElement === document.body) main.focus({ preventScroll: true });
}

function enter(found) {
  person = found;
  document.getElementById("head").hidden = false;
  document.body.classList.toggle("viewer", found.role === "viewer"); // whose token opens no action
  const limits = [...found.deployments, ...(found.selector ? [found.selector] : [])];
  const leave = async () => {
    await signOut();
    leaveTo();
  };
  show(
    document.getElementById("person"),
    el("span", { title: limits.length ? `limited to ${limits.join(", ")}` : "the whole cluster" }, `${found.name} (${found.role})`),
    el("button", { type: "button", onclick: leave }, "Sign out"),
  );
  shown();
}

function leaveTo() {
  end();
  stop();
  end = () => {};
  person = null;
  document.getElementById("head").hidden = true;
  document.title = "Sign in – nodepool-ocb";
  signInForm(main, enter);
}

function tellFreshness() {
  if (freshness.signedOut && person !== null) return leaveTo();
  const place = document.getElementById("freshness");
  if (freshness.at === null) return;
  const since = (performance.now() - freshness.at) / 1000 + freshness.age;
  const away = freshness.fault ?? (freshness.age > STALE_SECONDS ? "ZooKeeper is away" : null);
  place.className = away || since > STALE_SECONDS ? "stale" : "";
  const text = away
    ? `${away}: shown is zxid ${freshness.zxid}, ${seconds(since)} old`
    : `zxid ${freshness.zxid}, ${since < 5 ? "now" : `${seconds(since)} old`}`;
  if (place.textContent !== text) {
    place.textContent = "";
    append(place, text);
  }
}

onFreshness(tellFreshness);
setInterval(() => {
  tellFreshness();
  renewAges();
}, 1000);
window.addEventListener("hashchange", shown);
bindKeys(to);
session().then((found) => (found ? enter(found) : leaveTo()), leaveTo);
