/**
 * Elements from values. Text comes from machines and other people, so it is always a text node: no function of the page
 * reads markup.
 */

/** An element with properties, and children that are elements, texts, lists of these, or null. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  append(made, children);
  return made;
}

/** Add children to an element. */
export function append(parent, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return parent;
}

/** Replace the content, and keep the focus where an element with the same `data-key` still stands. */
export function show(parent, ...children) {
  const key = parent.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  parent.replaceChildren();
  append(parent, children);
  if (key === undefined) return;
  for (const each of parent.querySelectorAll("[data-key]")) {
    if (each.dataset.key === key) {
      each.focus({ preventScroll: true });
      return;
    }
  }
}

/** A link to a view of the page. */
export function link(text, href, properties = {}) {
  return el("a", { href, "data-key": `${href} ${text}`, ...properties }, text);
}

/** A part of a view with a heading. */
export function card(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

/** Say it to a screen reader. */
export function announce(text) {
  const place = document.getElementById("announcer");
  if (place.textContent !== text) place.textContent = text;
}
