// The past of a VF: its owners on a time line and in a table, and events.

import { make } from "./dom.js";
import { findCommands, drawCommand } from "./command.js";
import { drawTable } from "./table.js";
import { describeAge, describeOwner, describeSeconds, describeTime } from "./words.js";

const width = 400;

// drawSpans draws the owners of a VF.
export function drawSpans(spans) {
  const newest = [...spans].reverse();
  return [drawLine(spans), drawTable("Owners of the VF, newest first", [
    ["Time", (s) => make("span", { class: "times" }, describeTime(s.from) || "before", " –", make("br"), describeTime(s.to) || "now")],
    ["Owner", (s) => [make("b", null, describeOwner(s.owner) || "none"), describeSpan(s).map((line) => make("div", { class: "soft" }, line))]],
  ], newest)];
}

// describeSpan describes what belongs to an owner, and what was changed in that time.
function describeSpan(span) {
  return [
    span.network && `network ${span.network}`, [...(span.addresses ?? []), span.mac].filter(Boolean).join(", "), span.settings, span.podUID && `pod UID ${span.podUID}`,
    ...(span.changes ?? []).map((c) => `${c.type === "Warning" ? "▲ " : ""}${describeTime(c.time)} ${c.reason}: ${c.text}`),
  ].filter(Boolean);
}

// drawLine draws the spans on a line from the first moment that is known until now.
function drawLine(spans) {
  const now = Date.now();
  const begins = spans.map((s) => Date.parse(s.from)).filter((t) => !Number.isNaN(t));
  const first = begins.length ? Math.min(...begins) : now - 1;
  const x = (time, absent) => (width * ((time ? Date.parse(time) : absent) - first)) / Math.max(1, now - first);
  const changes = spans.flatMap((s) => s.changes ?? []);
  return make("figure", { class: "line" },
    make("svg", { viewBox: `0 0 ${width} 26`, preserveAspectRatio: "none", role: "img", "aria-label": `Owners in the last ${describeSeconds((now - first) / 1000)}; the table has each` },
      make("rect", { class: "ground", x: 0, y: 8, width, height: 10 }),
      spans.filter((s) => s.owner?.kind).map((s, i) => make("rect", {
        class: i % 2 ? "span odd" : "span", x: x(s.from, first), y: 4, height: 18, width: Math.max(2, x(s.to, now) - x(s.from, first)),
      })),
      changes.map((c) => make("rect", { class: c.type === "Warning" ? "change bad" : "change", x: x(c.time, now) - 1, y: 0, width: 2, height: 26 }))),
    make("figcaption", { class: "soft" }, make("span", null, describeTime(new Date(first).toISOString())), make("span", null, "now")));
}

// drawEvents draws events, newest first.
export function drawEvents(events) {
  return events?.length ? make("ol", { class: "events" }, events.map(drawEvent)) : null;
}

function drawEvent(event) {
  const isWarning = event.type === "Warning";
  return make("li", { class: isWarning && "warning", "data-key": `${event.seq} ${event.time} ${event.object}` },
    make("time", { datetime: event.time }, describeTime(event.time)),
    make("div", null,
      make("b", null, isWarning ? "▲ " : "", event.reason), " ",
      make("span", { class: "soft" }, event.object, event.by && ` by ${event.by}`), make("br"), event.text));
}

// drawProblem draws what is wrong with an object, and the commands that mend it. links makes a link of
// the object, where there is one.
export function drawProblem(problem, link) {
  const { object, reason, next, since } = problem;
  return make("li", { "data-key": `${problem.node ?? ""} ${object} ${reason}` },
    make("p", null, make("span", { class: "warn", "aria-hidden": "true" }, "▲ "),
      make("b", null, link ? make("a", { href: link }, object) : object),
      make("span", { class: "soft", title: describeTime(since) }, problem.node && ` on ${problem.node}`, describeAge(since) && `, for ${describeAge(since)}`)),
    make("p", null, reason),
    next && make("p", { class: "soft" }, "Next: ", next),
    findCommands(next).map((command) => make("p", null, drawCommand(command))));
}
