/** The address of a view: `#/VIEW/NAME?l=SELECTOR`. It stands in the fragment, which no browser sends to a server. */

/** The parts of the present address. */
export function route(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view = "", ...names] = path.split("/");
  return { view: view || "overview", name: names.map(decode).join("/"), query: new URLSearchParams(query) };
}

/** The address of a view. */
export function to(view, name = "", query = {}) {
  const parts = Object.entries(query).filter(([, value]) => value);
  const text = parts.length ? `?${new URLSearchParams(parts)}` : "";
  return `#/${view}${name ? `/${name.split("/").map(encodeURIComponent).join("/")}` : ""}${text}`;
}

/** Put another query into the address of the view that is shown, without a new entry in the history. */
export function setQuery(query) {
  const { view, name } = route();
  history.replaceState(null, "", to(view, name, query));
}

/** Sentences about the parts of an address that mean nothing. `known`: {named, query} of the view; undefined: there is none. */
export function misread({ view, name, query }, known) {
  if (!known) return [`The address names the view ${view}, which does not exist. This is the overview.`];
  const found = [];
  if (name && !known.named) found.push(`The address names ${name}, and this view shows no single object.`);
  for (const [key, value] of query) {
    if ((known.query ?? []).includes(key)) continue;
    const place = key === "deployment" && known.named && !name ? ` Write ${to(view, value)} for a deployment.` : "";
    found.push(`The address has ${key}=${value}, which this view does not know.${place}`);
  }
  return found;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
