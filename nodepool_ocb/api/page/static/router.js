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

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
