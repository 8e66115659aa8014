// The results of a search, and the plan of files before they are applied.

import { make } from "./dom.js";
import { describeVF, drawShape, holderOf, lookOf, phaseOf } from "./phase.js";
import { linkTo } from "./place.js";
import { drawTable } from "./table.js";
import { describeCount, describeOwner } from "./words.js";

const most = 50; // the server sends no more

// drawFound draws the VFs that match words; found is null until the server answers.
export function drawFound(words, found, isCluster) {
  const count = found?.error ?? (found ? `${found.length === most ? "The first " : ""}${describeCount(found.length, "VF")}` : "Searching …");
  return [
    drawTrail(),
    make("h1", null, `Search for ${words}`),
    make("p", { class: found?.error ? "bad" : "soft", role: "status" }, count),
    found?.length > 0 && make("section", { class: "card" }, drawTable("VFs that match", [
      ["VF", ({ node, vf }) => [drawShape(lookOf(vf)), make("a", { href: linkTo({ node: isCluster && node, vf: vf.name }), "aria-label": describeVF(vf), class: "found" }, vf.name)], "whole"],
      ["Owner", ({ vf }) => make("span", { class: "long" }, holderOf(vf) || phaseOf(vf))],
      ...(isCluster ? [["Node", ({ node }) => node]] : []),
      ["Network", ({ vf }) => vf.network], ["Addresses", ({ vf }) => vf.addresses?.join(" ")], ["MAC", ({ vf }) => vf.mac], ["PCI", ({ vf }) => vf.pci],
    ], found, ({ node, vf }) => `${node} ${vf.name}`)),
  ];
}

const drawTrail = () => make("p", { class: "trail" }, make("a", { href: linkTo({}) }, "← Overview"));

const signs = { "+": "add", "-": "remove", "~": "modify" };

// drawPlans draws what files would change; plans is null until the server answers.
export function drawPlans(plans) {
  return [
    drawTrail(),
    make("h1", null, "Plan"),
    make("p", { class: "soft" }, plans?.error ?? (plans ? "These changes are not made yet." : "Loading …")),
    Array.isArray(plans) && plans.length === 0 && make("p", null, "The files change nothing."),
    Array.isArray(plans) && plans.map((p) => make("section", { class: "card", "data-key": `${p.file} ${p.node}` },
      make("h2", null, p.node ? `${p.node}: ` : "", p.file),
      p.error && make("p", { class: "bad" }, p.error),
      p.plan?.pfs?.length === 0 && !p.error && make("p", { class: "soft" }, "No change."),
      p.plan?.pfs?.map(drawPFPlan), p.plan?.notes?.map((note) => make("p", { class: "soft" }, note)))),
  ];
}

function drawPFPlan(pf) {
  return make("div", { class: "plan" },
    make("h3", null, `PF ${pf.pf} `, make("span", { class: "soft" }, pf.pci)),
    pf.refused && make("p", { class: "bad" }, `▲ Refused: ${pf.refused}`),
    make("ul", null, pf.changes?.map((c) => make("li", { class: `change ${signs[c.op] ?? ""}` },
      make("span", { class: "sign", role: "img", "aria-label": signs[c.op] ?? c.op }, c.op), " ",
      [c.object, c.attribute].filter(Boolean).join(" "), (c.from || c.to) && make("span", null, ` ${c.from || "none"} → ${c.to || "none"}`), c.note && make("span", { class: "soft" }, ` (${c.note})`)))),
    pf.hurts?.length > 0 && make("div", { class: "hurts" }, make("p", { class: "bad" }, `▲ ${describeCount(pf.hurts.length, "owner")} would lose a VF:`),
      make("ul", null, pf.hurts.map((h) => make("li", null, `${describeOwner(h.owner)} (VF ${h.vf}${h.network ? `, network ${h.network}` : ""})`)))));
}
