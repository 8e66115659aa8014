// Draws tables, lists of facts and sections.

import { make } from "./dom.js";

// drawTable draws a table. Each column is [heading, function of a row, class]; keyOf names a row for
// updates. A table without rows is null.
export function drawTable(caption, columns, rows, keyOf) {
  if (!rows?.length) return null;
  return make("div", { class: "wide" },
    make("table", null,
      make("caption", { class: "hidden" }, caption),
      make("thead", null, make("tr", null, columns.map(([heading, , look]) => make("th", { scope: "col", class: look }, heading)))),
      make("tbody", null, rows.map((row) => make("tr", { "data-key": keyOf?.(row) },
        columns.map(([, valueOf, look]) => make("td", { class: look }, valueOf(row))))))));
}

// drawFacts draws pairs of a name and a value. It leaves out those without a value.
export function drawFacts(facts) {
  return make("dl", null, facts.filter(([, value]) => value || value === 0)
    .map(([name, value]) => make("div", null, make("dt", null, name), make("dd", null, value))));
}

// drawMore draws what the reader may open. drawRest draws it only once it is open.
export function drawMore(id, summary, drawRest) {
  return make("details", { id, "data-key": id }, make("summary", null, summary), document.getElementById(id)?.open && drawRest());
}

// drawSection draws a part of the page with its heading; null if it has no content.
export function drawSection(heading, ...content) {
  if (!content.some((c) => c && c.length !== 0)) return null;
  return make("section", { class: "card", "data-key": heading }, make("h2", null, heading), content);
}
