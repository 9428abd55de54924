/** The page: its header, the session, and the view of the present address. */
import { freshness, onFreshness, session, signOut } from "./api.js";
import { append, el, link, show } from "./dom.js";
import { renewAges, seconds } from "./format.js";
import { graph } from "./graph.js";
import { history as journal } from "./history.js";
import { image } from "./image.js";
import { bindKeys } from "./keys.js";
import { lease } from "./lease.js";
import { stop } from "./live.js";
import { daemons, images, locks, nodes, pool, rollouts, runs } from "./lists.js";
import { machines } from "./machines.js";
import { matrix } from "./matrix.js";
import { node } from "./node.js";
import { noderole } from "./noderole.js";
import { overview } from "./overview.js";
import { request } from "./request.js";
import { rollout } from "./rollout.js";
import { misread, route, to } from "./router.js";
import { signInForm } from "./signin.js";
import { taskrun } from "./taskrun.js";
import { timeline } from "./timeline.js";

/**
 * Each view fills the element and gives a function that ends it. `title`: it stands in the menu. `named`: its address may name an
 * object; `query`: the further parts of its address.
 */
const VIEWS = {
  overview: { show: overview, title: "Overview" },
  matrix: { show: matrix, title: "Matrix", named: true, query: ["l", "order"] },
  graph: { show: graph, title: "Graph", named: true, query: ["l", "around", "steps"] },
  timeline: { show: timeline, title: "Timeline", named: true, query: ["l", "last", "from", "to"] },
  nodes: { show: nodes, title: "Nodes", query: ["l"] },
  machines: { show: machines, title: "Machines" },
  rollouts: { show: rollouts, title: "Rollouts" },
  runs: { show: runs, title: "Task runs" },
  images: { show: images, title: "Images" },
  pool: { show: pool, title: "Pool" },
  history: { show: journal, title: "History", query: ["l"] },
  daemons: { show: daemons, title: "Daemons" },
  locks: { show: locks, title: "Locks" },
  noderole: { show: noderole, named: true, query: ["run"] },
  node: { show: node, named: true },
  rollout: { show: rollout, named: true },
  image: { show: image, named: true, query: ["build"] },
  run: { show: taskrun, named: true },
  request: { show: request, named: true },
  lease: { show: lease, named: true },
};
const STALE_SECONDS = 10;
const MOST_LIMITS = 3; // deployments that the header names

const main = document.getElementById("main");
let end = () => {};
let person = null;

function menu(view) {
  const items = Object.entries(VIEWS).filter(([, each]) => each.title);
  const place = document.getElementById("views");
  show(
    place,
    items.map(([name, each]) => link(each.title, to(name), { "aria-current": name === view ? "page" : null })),
  );
  const here = place.querySelector("[aria-current]");
  if (here) place.scrollLeft = here.offsetLeft - place.offsetLeft - (place.clientWidth - here.clientWidth) / 2; // on a narrow screen
}

function shown() {
  const found = route();
  const known = Object.hasOwn(VIEWS, found.view) ? VIEWS[found.view] : undefined;
  const [name, view] = known ? [found.view, known] : ["overview", VIEWS.overview];
  end();
  end = () => {};
  if (person === null) return;
  menu(name);
  document.title = `${(known && found.name) || view.title || name} – nodepool-ocb`;
  const place = el("div", { class: `view view-${name}` });
  const wrong = misread(found, known);
  show(main, wrong.length ? el("p", { class: "reason bad", role: "alert" }, wrong.join(" ")) : null, place);
  end = view.show(place, found) ?? (() => {});
  if (document.activeElement === document.body) main.focus({ preventScroll: true });
}

const ANYONE = "anyone"; // the holder of a session without a token, where reads are open

function enter(found) {
  person = found;
  if (route().view === "signin") history.replaceState(null, "", to("overview")); // it told a fault of the sign-in
  document.getElementById("head").hidden = false;
  document.body.classList.toggle("viewer", found.role === "viewer"); // whose token opens no action
  const limits = [...found.deployments, ...(found.selector ? [found.selector] : [])];
  document.body.classList.toggle("limited", limits.length > 0); // it shows its part of the cluster
  const leave = async () => {
    await signOut();
    leaveTo();
  };
  const part = limits.length > MOST_LIMITS ? ` of ${limits.length} deployments` : limits.length ? ` of ${limits.join(", ")}` : "";
  show(
    document.getElementById("person"),
    el("span", { title: limits.length ? `limited to ${limits.join(", ")}` : "the whole cluster" }, `${found.name} (${found.role}${part})`),
    el("button", { type: "button", onclick: leave }, found.name === ANYONE ? "Sign in" : "Sign out"),
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
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment of the address names a view
  main.focus();
});
bindKeys(to);
session().then((found) => (found ? enter(found) : leaveTo()), leaveTo);
