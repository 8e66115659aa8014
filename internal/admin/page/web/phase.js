// The state of a VF as a colour, a shape and a word. Colour is never the only sign.

import { make } from "./dom.js";
import { describeCount, describeNumber, describeOwner } from "./words.js";

// Each phase has one of the looks. The style sheet has the colour of each look.
const looks = {
  attached: "used", prepared: "used", given: "given", outside: "outside", free: "free", making: "busy", configuring: "busy", releasing: "busy",
  quarantined: "bad", damaged: "bad", missing: "missing", unmanaged: "unmanaged",
};

const shapes = {
  used: "M1 1h10v10H1z",
  given: "M1 1h10v10H1zM2.5 2.5v7h7v-7zM4.5 4.5h3v3h-3z",
  free: "M6 .5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 1 1 0-11zM6 2a4 4 0 1 0 0 8a4 4 0 1 0 0-8z",
  busy: "M6 .5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 1 1 0-11zM6 2a4 4 0 1 0 0 8z",
  bad: "M6 0l6 11.5H0zM5.2 4l.3 4h1l.3-4zM5.3 8.9v1.3h1.4V8.9z",
  outside: "M6 0l6 6-6 6-6-6z",
  unmanaged: "M6 0l6 6-6 6-6-6zM6 2.2L2.2 6 6 9.8 9.8 6z",
  missing: "M2 .5L6 4.500l4-4L11.500 2l-4 4 4 4L10 11.500l-4-4-4 4L.5 10l4-4-4-4z",
};

// phaseOf returns the word for the state of a VF.
export function phaseOf(vf) {
  if (vf.missing) return "missing";
  return vf.phase === "free" && vf.usedBy ? "outside" : vf.phase;
}

// lookOf returns the look of a VF: the end of the names of its CSS classes.
export const lookOf = (vf) => looks[phaseOf(vf)] ?? "unmanaged";

// drawShape draws the sign of a look.
export function drawShape(look) {
  return make("svg", { class: `shape is-${look}`, viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" },
    make("path", { d: shapes[look], "fill-rule": "evenodd" }));
}

// holderOf describes who has a VF; it is empty for a VF without an owner.
export const holderOf = (vf) => describeOwner(vf.owner) || vf.usedBy || "";

// describeVF describes a VF for a screen reader.
export function describeVF(vf) {
  const holder = holderOf(vf);
  const parts = [`VF ${vf.name}`, holder ? `used by ${holder}` : phaseOf(vf)];
  if (holder && phaseOf(vf) !== "attached") parts.push(phaseOf(vf));
  if (vf.differences?.length) parts.push(describeCount(vf.differences.length, "difference"));
  if (vf.noCarrier) parts.push("no carrier");
  return parts.join(", ");
}

// countStates returns the states of api.Counts with their looks.
const countStates = (c) => [
  ["used", c.used, "used"], ["free", c.free, "free"], ["busy", c.making, "making"],
  ["bad", c.quarantined, "quarantined"], ["unmanaged", c.unmanaged, "unmanaged"],
];

// describeCounts describes VFs by state: 3 used, 5 free.
export function describeCounts(counts) {
  const parts = countStates(counts).filter(([, n]) => n > 0).map(([, n, word]) => `${describeNumber(n)} ${word}`);
  return parts.join(", ") || "no VFs";
}

// drawCounts draws VFs by state as a bar.
export function drawCounts(counts) {
  const parts = countStates(counts).filter(([, n]) => n > 0);
  return make("span", { class: "bar", role: "img", "aria-label": describeCounts(counts), title: describeCounts(counts) },
    parts.map(([look, n]) => make("span", { class: `part is-${look}`, style: { "flex-grow": n } })));
}

// drawLegend names the shapes that occur among VFs, with their number.
export function drawLegend(vfs) {
  const counts = new Map();
  for (const vf of vfs) counts.set(phaseOf(vf), (counts.get(phaseOf(vf)) ?? 0) + 1);
  return make("ul", { class: "legend", "aria-label": "VFs by state" },
    [...counts].sort(([, a], [, b]) => b - a).map(([phase, n]) => make("li", null, drawShape(looks[phase] ?? "unmanaged"), `${n} ${phase}`)));
}
