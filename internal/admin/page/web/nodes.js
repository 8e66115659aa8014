// The list of a cluster's nodes. Only the rows in sight are in the document, so that a thousand nodes
// cost as much as thirty.

import { make, morph } from "./dom.js";
import { drawCounts } from "./phase.js";
import { linkTo } from "./place.js";
import { describeAge, describeNumber } from "./words.js";

const spare = 6; // rows above and below those in sight
const narrow = matchMedia("(max-width: 980px)");
const collator = new Intl.Collator("en", { numeric: true });

const columns = [
  { key: "name", heading: "Node", valueOf: (n) => n.name },
  { key: "ready", heading: "State", valueOf: (n) => (n.ready ? 1 : 0) },
  { key: "used", heading: "VFs used", valueOf: (n) => n.vfs.used, isNumber: true },
  { key: "quarantined", heading: "Quarantined", valueOf: (n) => n.vfs.quarantined, isNumber: true },
  { key: "pfs", heading: "PFs", valueOf: (n) => n.linkDown * 1000 + n.pfs, isNumber: true },
  { key: "problems", heading: "Problems", valueOf: (n) => n.problems, isNumber: true },
  { key: "time", heading: "Report", valueOf: (n) => -Date.parse(n.time) || 0, isNumber: true },
];

let cache = {};
let scrollTop = 0;
let focused = 0; // the row that the Tab key stops at

const filters = { "not-ready": (n) => !n.ready, problems: (n) => n.problems > 0 };

// selectNodes returns the nodes that a place's filter lets pass, in its order.
export function selectNodes(nodes, place) {
  const of = [place.word ?? "", place.only ?? "", place.sort ?? "name"].join("\n");
  if (cache.nodes !== nodes || cache.of !== of) {
    const word = (place.word ?? "").toLowerCase();
    const passes = filters[place.only] ?? (() => true);
    cache = { nodes, of, chosen: sort(nodes.filter((n) => n.name.toLowerCase().includes(word) && passes(n)), place.sort ?? "name") };
  }
  return cache.chosen;
}

function sort(nodes, by) {
  const down = by.startsWith("-") ? -1 : 1;
  const { valueOf } = columns.find((c) => c.key === by.replace("-", "")) ?? columns[0];
  const compare = (a, b) => (typeof a === "string" ? collator.compare(a, b) : a - b);
  return nodes.sort((a, b) => down * compare(valueOf(a), valueOf(b)) || collator.compare(a.name, b.name));
}

const heightOf = () => (narrow.matches ? 62 : 38);

// drawNodes draws the list, with its search box and filters.
export function drawNodes(nodes, place) {
  const chosen = selectNodes(nodes, place);
  focused = Math.min(focused, Math.max(0, chosen.length - 1));
  return make("section", { class: "card", "data-key": "nodes", id: "nodes" },
    make("h2", null, "Nodes"),
    drawFilters(nodes, chosen, place),
    make("div", { class: "nodes", role: "table", "aria-label": "Nodes", "aria-rowcount": chosen.length + 1 },
      make("div", { class: "heads", role: "row", "aria-rowindex": 1 }, columns.map((column) => drawHeading(column, place))),
      chosen.length === 0 && make("p", { class: "soft" }, "No node matches."),
      drawRows(chosen)));
}

function drawFilters(nodes, chosen, place) {
  const toggle = (only, text) => make("button", { type: "button", "data-only": only, "aria-pressed": String(place.only === only) },
    `${text} `, make("b", null, describeNumber(nodes.filter(filters[only]).length)));
  return make("div", { class: "tools" },
    make("label", { class: "hidden", for: "filter" }, "Nodes whose name has"),
    make("input", { id: "filter", type: "search", placeholder: "Filter by name", value: place.word, autocomplete: "off", spellcheck: "false" }),
    toggle("not-ready", "Not ready"), toggle("problems", "With problems"),
    make("span", { class: "soft", id: "shown" }, chosen.length === nodes.length ? "" : `${describeNumber(chosen.length)} of ${describeNumber(nodes.length)}`));
}

function drawHeading(column, place) {
  const by = place.sort ?? "name";
  const isSorted = by.replace("-", "") === column.key;
  const direction = by.startsWith("-") ? "descending" : "ascending";
  const next = isSorted ? (by.startsWith("-") ? column.key : `-${column.key}`) : `${column.isNumber ? "-" : ""}${column.key}`;
  return make("span", { role: "columnheader", class: column.isNumber && "number", "aria-sort": isSorted ? direction : "none" },
    make("button", { type: "button", "data-sort": next }, column.heading, make("span", { "aria-hidden": "true" }, isSorted ? (by.startsWith("-") ? " ▾" : " ▴") : "")));
}

function drawRows(chosen) {
  const height = heightOf();
  const view = document.getElementById("rows")?.clientHeight || 600;
  const first = Math.max(0, Math.floor(scrollTop / height) - spare);
  const last = Math.min(chosen.length, Math.ceil((scrollTop + view) / height) + spare);
  const shown = chosen.slice(first, last).map((node, i) => drawRow(node, first + i, height));
  if (chosen.length && (focused < first || focused >= last)) shown.push(drawRow(chosen[focused], focused, height));
  return make("div", { id: "rows", role: "rowgroup", tabindex: -1 },
    make("div", { class: "space", role: "presentation", style: { height: `${chosen.length * height}px` } }, shown));
}

function drawRow(node, index, height) {
  const cell = (look, ...content) => make("span", { role: "cell", class: look }, content);
  const { vfs } = node;
  return make("div", { class: "node", role: "row", "aria-rowindex": index + 2, "data-key": node.name, style: { transform: `translateY(${index * height}px)` } },
    cell("name", make("a", { href: linkTo({ node: node.name }), title: node.name, "data-index": index, tabindex: index === focused ? 0 : -1 }, node.name)),
    cell(node.ready ? "ready" : "not-ready", node.ready ? "● Ready" : "▲ Not ready"),
    cell("vfs", drawCounts(vfs), make("span", { class: "count" }, `${vfs.used} / ${vfs.total}`)),
    cell(vfs.quarantined ? "number bad" : "number zero", vfs.quarantined, make("span", { class: "unit" }, " quarantined")),
    cell("number pfs", node.pfs, node.linkDown > 0 && make("span", { class: "bad" }, ` (${node.linkDown} down)`), make("span", { class: "unit" }, " PFs")),
    cell(node.problems ? "number warn" : "number zero", node.problems, make("span", { class: "unit" }, node.problems === 1 ? " problem" : " problems")),
    cell("number age", describeAge(node.time), make("span", { class: "unit" }, " old")));
}

let isDue = false;

// noteScroll takes the list's scroll position, and draws the rows in sight before the next frame.
export function noteScroll(rows, nodes, place) {
  scrollTop = rows.scrollTop;
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    morph(rows, drawRows(selectNodes(nodes, place)));
  });
}

// moveRow moves the focus to another row as a key asks, and returns whether it did.
export function moveRow(link, key, nodes, place) {
  const page = Math.max(1, Math.floor(document.getElementById("rows").clientHeight / heightOf()) - 1);
  const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -Infinity, End: Infinity }[key];
  if (!step) return false;
  const chosen = selectNodes(nodes, place);
  focused = Math.min(chosen.length - 1, Math.max(0, Number(link.dataset.index) + step));
  const rows = document.getElementById("rows");
  const top = focused * heightOf();
  if (top < rows.scrollTop) rows.scrollTop = top;
  if (top + heightOf() > rows.scrollTop + rows.clientHeight) rows.scrollTop = top + heightOf() - rows.clientHeight;
  scrollTop = rows.scrollTop;
  morph(rows, drawRows(chosen));
  document.querySelector(`#rows [data-index="${focused}"]`)?.focus({ preventScroll: true });
  return true;
}

// resetList goes to the top of the list, after a change of its filter.
export function resetList() {
  focused = scrollTop = 0;
  const rows = document.getElementById("rows");
  if (rows) rows.scrollTop = 0;
}
