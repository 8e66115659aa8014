// Makes and changes elements. Names of tenants reach the page as text nodes and attributes of a fixed
// name only, so that no name can become markup.

const svgNames = new Set(["svg", "rect", "circle", "path", "polyline", "line"]);

// clean replaces characters that steer the direction or the layout of text.
export function clean(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, "\ufffd");
}

// make returns an element: make("a", {href: "#"}, "text", otherElement, [more]). It leaves out
// attributes and children that are null, undefined or false.
export function make(name, attributes, ...children) {
  const isSVG = svgNames.has(name);
  const e = isSVG ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "style") {
      for (const [property, v] of Object.entries(value)) e.style.setProperty(property, v);
    } else {
      e.setAttribute(key, value === true ? "" : clean(value));
    }
  }
  append(e, children);
  return e;
}

function append(e, children) {
  for (const child of children) {
    if (child === undefined || child === null || child === false) continue;
    if (Array.isArray(child)) append(e, child);
    else e.append(child instanceof Node ? child : clean(child));
  }
}

// The reader changes this attribute: a details element that is open.
const kept = new Set(["open"]);

function copyAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !kept.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name === "style") {
      if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
    } else if (old.getAttribute(name) !== value) {
      old.setAttribute(name, value);
    }
  }
}

const keyOf = (node) => node.dataset?.key;

// morph changes the children of old into those of fresh. Elements stay that have the same data-key, or
// neither a key nor another name: they keep their focus, their scroll position and a selection of text.
export function morph(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    const same = key ? keyed.get(key) : at && !keyOf(at) && at.nodeName === next.nodeName ? at : null;
    if (!same || same.nodeName !== next.nodeName) {
      old.insertBefore(next, at);
      continue;
    }
    keyed.delete(key);
    if (same === at) at = at.nextSibling;
    else old.insertBefore(same, at);
    if (same.nodeType === Node.ELEMENT_NODE) {
      copyAttributes(same, next);
      morph(same, next);
    } else if (same.data !== next.data) {
      same.data = next.data;
    }
  }
  while (at) {
    const rest = at;
    at = at.nextSibling;
    rest.remove();
  }
}

// setText makes text the content of the element with an ID.
export function setText(id, text) {
  const e = document.getElementById(id);
  if (e.textContent !== clean(text)) e.textContent = clean(text);
}

// show makes content the only children of a place in the page, and keeps the focus.
export function show(place, ...content) {
  const focused = document.activeElement;
  const fresh = make("div", null, content);
  morph(place, fresh);
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}
